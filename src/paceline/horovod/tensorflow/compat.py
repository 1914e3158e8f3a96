"""The versions of TensorFlow that this face was tested with."""

from __future__ import annotations

import importlib.metadata
import importlib.util

OLDEST, NEWEST = (2, 16), (2, 21)
_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly")


def require_tensorflow() -> None:
    """Raise an ImportError of one sentence unless a supported TensorFlow is installed. It is not imported here."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:  # without an origin it is any folder of that name
        raise ImportError(
            "paceline.horovod.tensorflow needs TensorFlow, which is not installed: pip install tensorflow"
        )
    version = _version()
    if version is not None and not OLDEST <= version <= NEWEST:
        oldest, newest, found = (".".join(map(str, each)) for each in (OLDEST, NEWEST, version))
        raise ImportError(f"paceline supports TensorFlow {oldest}-{newest}, found {found}")


def _version() -> tuple[int, int] | None:
    """Return the major and minor version that is installed; None if no distribution says it."""
    for name in _DISTRIBUTIONS:
        try:
            major, minor = importlib.metadata.version(name).split(".")[:2]
            return int(major), int(minor)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
