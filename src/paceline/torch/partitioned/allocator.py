"""The C library's allocator, told not to keep what is freed."""

from __future__ import annotations

import ctypes

from paceline.calibration.torch import RETURNED_FROM

_M_MMAP_THRESHOLD = -3


def return_what_is_freed() -> None:
    """Let large pieces of memory go back to the system once they are freed, from now on in the whole process.

    What is free goes back now. glibc then maps each piece alone (mallopt(3)), so that the process has as much memory as
    its tensors, and pays for it with page faults. Other libraries have no such function, and keep what they keep.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, RETURNED_FROM)
    return_what_is_free()


def return_what_is_free() -> None:
    """Let the memory that is free go back to the system now, where the C library can do that (malloc_trim(3))."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
