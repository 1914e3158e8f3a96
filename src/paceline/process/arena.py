"""Arrays in memory that the other ranks of this machine see, so that collectives on them need no copy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from paceline.group.buffers import AnyArray
from paceline.process.current import runtime


def empty(shape: int | Sequence[int], dtype: DTypeLike = np.float32) -> AnyArray:
    """An uninitialised NumPy array in this process's arena; its memory is given back with the last reference to it.

    An `all_reduce` whose buffer lies in an arena on every rank combines it in place, without a copy. May be called
    before `paceline.init`. Raises ValueError for a negative length, MemoryError if the arena has no room.
    """
    kind = np.dtype(dtype)
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(length < 0 for length in lengths):
        raise ValueError(f"a shape has no negative lengths, got {lengths}")
    count = math.prod(lengths)
    memory = runtime().allocate(max(1, count) * kind.itemsize)
    return np.frombuffer(memoryview(memory), kind, max(1, count))[:count].reshape(lengths)
