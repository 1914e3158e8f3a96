"""Lets glibc keep memory that is freed in every step. With another C library nothing is done."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20
"""Bytes: the most that glibc accepts."""
_LARGEST_INT = 2**31 - 1
_MOST_BUFFERS = 4096
"""Buffers that are remembered."""

_kept = 0


def keep_freed_memory(more: int) -> None:
    """Let malloc keep `more` further bytes of freed memory, for the whole process.

    Otherwise it would give them back to the system and fault them in again. If gradients are freed as soon as they were
    moved, backward would do so with each large one, at twice the cost of moving it (measured on ResNet-18).
    """
    global _kept
    _kept = min(_kept + more, _LARGEST_INT)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, _kept)


class Returning:
    """Notes large buffers that are reduced again and again, as DDP's buckets are: every step frees as much memory."""

    LEAST = 1 << 20
    """Bytes of the smallest buffer that counts as large."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], bool] = {}

    def note(self, address: int, nbytes: int) -> None:
        """Let malloc keep as much as this buffer takes, once it is seen for the second time."""
        buffer = address, nbytes
        if buffer in self._seen:
            if not self._seen[buffer]:
                self._seen[buffer] = True
                keep_freed_memory(nbytes)
        elif len(self._seen) < _MOST_BUFFERS:
            self._seen[buffer] = False
