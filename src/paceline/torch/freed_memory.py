"""glibc keeps what backward frees. Elsewhere nothing is done."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20
_LARGEST_INT = 2**31 - 1
_MOST_BUFFERS = 4096

_kept = 0


def keep_freed_memory(more: int) -> None:
    """Let malloc keep up to `more` bytes at its end, and what it was let before: it belongs to the whole process.

    It would give them back to the system and fault them in again. Where gradients are freed as soon as they were moved,
    backward would do so with each large one, at twice the cost of moving it (measured on ResNet-18).
    """
    global _kept
    _kept = min(_kept + more, _LARGEST_INT)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        mallopt(_TRIM_THRESHOLD, _kept)


class Returning:
    """Large buffers that are reduced again and again, as DDP's buckets are: as much is freed in every step."""

    LEAST = 1 << 20
    """Bytes from which on a buffer is large."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], bool] = {}

    def note(self, address: int, nbytes: int) -> None:
        """Let malloc keep as much as this buffer takes when it is seen here for the second time."""
        buffer = address, nbytes
        if buffer in self._seen:
            if not self._seen[buffer]:
                self._seen[buffer] = True
                keep_freed_memory(nbytes)
        elif len(self._seen) < _MOST_BUFFERS:
            self._seen[buffer] = False
