"""Arrays in the memory of a device: CuPy's and Numba's, CUDA tensors, and anything that shows itself like them.

Nothing is imported for them: an array shows its memory by `__cuda_array_interface__`, which also names the stream on
which it is in use, or by DLPack.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from paceline import _engine
from paceline.group.buffers import DTYPES, Array, Buffer, SupportsDLPack, read, write

_CUDA = (2, 13)
"""DLPack's numbers for memory of a CUDA device, and for managed memory."""
_DEFAULT_STREAM = 1
"""CUDA's name for the default stream, in both interfaces; 0 is not allowed there, because it would be ambiguous."""
_TYPES = {
    "<f2": "float16",
    "<f4": "float32",
    "<f8": "float64",
    "|i1": "int8",
    "|u1": "uint8",
    "<i4": "int32",
    "<i8": "int64",
    "|b1": "bool",
}


@dataclass(slots=True)
class DeviceArray(Buffer):
    """Contiguous memory of a device, which stays alive as long as this does.

    stream: CUDA's number of a stream. ordinal: of the device, which counts where the address is 0.
    """

    stream: int = _DEFAULT_STREAM
    ordinal: int = 0


def readable(value: Array) -> Buffer:
    """Memory to read from: a `DeviceArray` if it is a device's, else as `read` says. Raises as that and `on_device`."""
    there = on_device(value, written=False)
    return read(value) if there is None else there


def writable(value: Array) -> Buffer:
    """Memory to read and write: a `DeviceArray` if it is a device's, else as `write` says. Raises as `readable`."""
    there = on_device(value)
    return write(value) if there is None else there


def on_device(value: object, written: bool = True) -> DeviceArray | None:
    """The memory of `value`, if a device has it; None for everything else.

    Raises TypeError for a dtype that the engine does not have, ValueError if the memory is not contiguous, or is
    read-only although it is `written`.
    """
    if isinstance(value, np.ndarray):
        return None
    try:
        interface = cast("Mapping[str, object] | None", getattr(value, "__cuda_array_interface__", None))
    except (TypeError, RuntimeError, KeyError):  # so does torch for bfloat16, and for tensors with a gradient
        interface = None
    if interface is not None:
        return _from_interface(interface, value, written)
    if isinstance(value, SupportsDLPack):
        kind, ordinal = _device_of(value)
        if kind in _CUDA:
            return _from_dlpack(value, ordinal)
    return None


def _from_interface(interface: Mapping[str, object], value: object, written: bool) -> DeviceArray:
    shape = cast("Sequence[int]", interface["shape"])
    address, read_only = cast("tuple[int, bool]", interface["data"])
    name = _TYPES.get(cast("str", interface["typestr"]))
    if name is None:
        raise TypeError(f"dtype {interface['typestr']} is not supported; use one of {', '.join(_TYPES.values())}")
    if read_only and written:
        raise ValueError("this array is read-only, but the result of the collective belongs in it")
    dtype = DTYPES[name]
    strides = cast("Sequence[int] | None", interface.get("strides"))
    if strides is not None and not _contiguous(shape, strides, _engine.SIZES[dtype]):
        raise ValueError("an array of a device must be contiguous: make it so (ascontiguousarray) and copy it back")
    stream = cast("int | None", interface.get("stream"))
    ordinal = 0 if address else _device_of(value)[1]
    return DeviceArray(address, math.prod(shape), dtype, value, stream=stream or _DEFAULT_STREAM, ordinal=ordinal)


def _from_dlpack(value: SupportsDLPack, ordinal: int) -> DeviceArray:
    capsule = value.__dlpack__(stream=_DEFAULT_STREAM)
    seen = _engine.look_in_capsule(capsule)
    if seen is None:
        raise TypeError(
            f"this {type(value).__name__} shows no contiguous, writable memory of one of the dtypes {', '.join(DTYPES)}"
        )
    return DeviceArray(*seen, (value, capsule), ordinal=ordinal)


def _device_of(value: object) -> tuple[int | None, int]:
    """DLPack's number for the kind of memory, None if nothing says it, and the ordinal of the device."""
    look = getattr(value, "__dlpack_device__", None)
    if not callable(look):
        return None, 0
    kind, ordinal = look()
    return int(kind), int(ordinal)


def _contiguous(shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
    expected = size
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length not in (0, 1) and stride != expected:
            return False
        expected *= length
    return True
