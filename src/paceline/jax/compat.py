"""The versions of JAX that this face was tested with."""

from __future__ import annotations

import importlib.metadata
import importlib.util

OLDEST, NEWEST = (0, 6), (0, 10)


def require_jax() -> None:
    """Raise an ImportError of one sentence unless a supported JAX is installed. It is not imported here."""
    spec = importlib.util.find_spec("jax")
    if spec is None or spec.origin is None:  # without an origin it is any folder of that name
        raise ImportError("paceline.jax needs JAX, which is not installed: pip install jax")
    major, minor = map(int, importlib.metadata.version("jax").split(".")[:2])
    if not OLDEST <= (major, minor) <= NEWEST:
        oldest, newest = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
        raise ImportError(f"paceline supports JAX {oldest}-{newest}, found {major}.{minor}")
