"""Freed memory as glibc treats it: keep it for the next step, or give it back. Another C library does as it likes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from paceline.calibration.torch import RETURNED_FROM
from paceline.torch.available_memory import resident_bytes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20
"""Bytes: the most that glibc accepts."""
_KEPT_ANYWAY = 2 * _LARGEST_MMAP_THRESHOLD
"""Bytes that glibc comes to keep by itself where large pieces are freed, until it is told how many."""
_LARGEST_INT = 2**31 - 1
_MOST_BUFFERS = 4096
"""Buffers that are remembered."""

_kept = 0
_returns = False


def keep_freed_memory(more: int) -> None:
    """Let malloc keep `more` bytes of freed memory beside what it keeps anyway, unless it returns what is freed.

    Otherwise it would give them back to the system and fault them in again. If gradients are freed as soon as they were
    moved, backward would do so with each large one, at twice the cost of moving it (measured on ResNet-18). This is for
    the whole process, and adds to what was kept before.
    """
    global _kept
    _kept = min(_kept + more, _LARGEST_INT - _KEPT_ANYWAY)
    if not _returns:
        _set(_LARGEST_MMAP_THRESHOLD, _KEPT_ANYWAY + _kept)


def return_freed_memory() -> None:
    """Let large pieces of memory go back to the system once they are freed, from now on in the whole process.

    What is free goes back now. glibc then maps each piece alone (mallopt(3)), so that the process has as much memory as
    its tensors, and pays for it with page faults.
    """
    _begin_to_return()
    _occupy_free_pieces()


@contextmanager
def returning() -> Iterator[None]:
    """`return_freed_memory`, in this context alone.

    Afterwards malloc keeps as much as it comes to keep by itself once large pieces have been freed.
    """
    global _returns
    before = _returns
    _begin_to_return()
    try:
        yield
    finally:
        _returns = before
        if not _returns:
            _set(_LARGEST_MMAP_THRESHOLD, _KEPT_ANYWAY + _kept)
        return_free_memory()


def _begin_to_return() -> None:
    global _returns
    _returns = True
    _set(RETURNED_FROM, 2 * RETURNED_FROM)
    return_free_memory()


def return_free_memory() -> None:
    """Let the memory that is free go back to the system now (malloc_trim(3))."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _occupy_free_pieces() -> None:
    """Take the large free pieces below the heap's end for good; never written to, they take next to no memory.

    malloc takes pieces of every size from what is free in its heap before it maps one alone. Pieces that live one after
    the other would touch all of a heap's gaps.
    """
    libc = ctypes.CDLL(None)
    malloc, free, sbrk = libc.malloc, libc.free, libc.sbrk
    malloc.restype = sbrk.restype = ctypes.c_void_p
    malloc.argtypes, free.argtypes, sbrk.argtypes = [ctypes.c_size_t], [ctypes.c_void_p], [ctypes.c_ssize_t]
    end, nbytes = sbrk(0), _LARGEST_MMAP_THRESHOLD
    while nbytes >= RETURNED_FROM:
        piece = malloc(nbytes)
        if piece is None or piece >= end:
            free(piece)
            nbytes //= 2


class Room:
    """Bytes by which the process may grow from now on before what is free goes back to the system.

    malloc takes pieces of every size from what is free in its heap before it maps one alone. In a heap with large gaps,
    pieces that live one after the other may therefore touch all of the gaps, even within `returning`.
    """

    def __init__(self, nbytes: float) -> None:
        self._end = resident_bytes() + nbytes

    def keep(self) -> None:
        """Give back what is free if the process has outgrown the room."""
        if resident_bytes() > self._end:
            return_free_memory()


def _set(mapped_from: int, kept: int) -> None:
    """Map pieces of so many bytes and more alone, and keep no more than so many free bytes at the heap's end."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, mapped_from)
        mallopt(_TRIM_THRESHOLD, kept)


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
