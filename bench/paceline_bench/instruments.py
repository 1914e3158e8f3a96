"""The native instruments, which call functions of the installed engine without Python in between.

Each takes the addresses of its buffers, and returns nanoseconds.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable
from ctypes import c_double, c_int, c_size_t, c_void_p
from functools import partial

from paceline import _engine


def _library() -> ctypes.CDLL:
    found = importlib.util.find_spec("paceline_bench._instruments")
    assert found is not None and found.origin is not None
    return ctypes.CDLL(found.origin)


def _native(name: str, *arguments: type, calls: str = "") -> Callable[..., int]:
    """Return an instrument. calls: the engine's function that it measures."""
    native = _LIBRARY[name]
    native.restype, native.argtypes = ctypes.c_int64, [*([c_void_p] if calls else []), *arguments]
    return partial(native, _engine.FUNCTIONS[calls]) if calls else native


_LIBRARY = _library()
_REDUCED = (c_void_p, c_void_p, c_void_p, c_size_t, c_int)
_CODED = (c_int, c_int, c_void_p, c_size_t, c_void_p)

time_reduce = _native("time_reduce", c_int, c_int, c_double, *_REDUCED, calls="reduce")
"""Arguments: dtype, op, divisor, result, two inputs, elements, calls."""
time_add = _native("time_add", *_REDUCED)
"""The yardstick of `time_reduce`: result, two inputs, elements of float32, calls."""
time_encode = _native("time_encode", *_CODED, c_int, calls="encode")
"""CPU time. Arguments: codec, dtype, input, elements, output, calls."""
time_decode = _native("time_decode", *_CODED, c_size_t, c_int, calls="decode")
"""CPU time. Arguments: codec, dtype, input, its bytes, output, elements, calls."""
time_copy = _native("time_copy", c_void_p, c_void_p, c_size_t, c_int)
"""The yardstick of these two: input, output, bytes, calls."""
time_passes = _native("time_passes", *(c_void_p, c_int, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p))
"""CPU time of collectives of threads, see `limit`. Arguments: the address of the kernel that reduces, or None for
copies; ranks, the addresses of their sources and of their targets, elements, passes before the timed ones, timed
passes, and where the time of each of these goes."""
