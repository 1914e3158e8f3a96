"""The demand for PyTorch, before anything of it is imported."""

from __future__ import annotations

import importlib.util

from paceline.version import NEWEST_TORCH, OLDEST_TORCH


def require_torch(package: str) -> None:
    """Raise an ImportError of one sentence, about the package that needs torch, unless torch is installed."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:  # without an origin it is any folder of that name
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST_TORCH, NEWEST_TORCH))
        raise ImportError(f"{package} needs PyTorch {oldest}-{newest}, which is not installed: pip install torch")
