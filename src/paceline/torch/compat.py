"""What differs between the versions of torch. Everything else in this package is the same for all of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

OLDEST = (2, 11)
NEWEST = (2, 15)
COMPOSES = (2, 14)
"""The first version in which torch itself puts `"cpu:paceline,cuda:nccl"` together out of Python backends."""


def torch_version() -> tuple[int, int]:
    """Major and minor version of the installed torch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def require_supported_torch() -> None:
    """Raise a one-line RuntimeError unless the installed torch is one that this package was tested with."""
    if not OLDEST <= torch_version() <= NEWEST:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
        raise RuntimeError(f"paceline supports torch {oldest}-{newest}, found {torch.__version__}")


# Up to 2.13 a Python backend replaces torch's whole process group, from 2.14 it is one of the backends in it.
# Both are made from rank and size.
Base: Any = c10d.Backend if torch_version() >= COMPOSES else dist.ProcessGroup
