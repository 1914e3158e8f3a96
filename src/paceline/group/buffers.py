"""Arrays as the engine sees them: an address, a count and a dtype."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import _engine

DTYPES: dict[str, int] = _engine.DTYPES


@dataclass(slots=True)
class Buffer:
    """Contiguous memory that stays alive as long as this does."""

    address: int
    count: int
    dtype: int
    memory: Any
    target: NDArray[Any] | None = None
    """Where the result belongs, if that memory could not be used as it is."""

    @property
    def dtype_name(self) -> str:
        """As NumPy calls it."""
        return next(name for name, number in DTYPES.items() if number == self.dtype)

    def give_back(self) -> None:
        """Copy the result to where it belongs, once it is there."""
        if self.target is not None:
            np.copyto(self.target, self.memory.reshape(self.target.shape))


def as_array(value: Any) -> NDArray[Any]:
    """A NumPy view of anything with the buffer protocol or DLPack; never a copy."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise TypeError(f"expected an array (buffer protocol or DLPack), got {type(value).__name__}") from None


def read(value: Any) -> Buffer:
    """A buffer to read from: copied if it is not contiguous."""
    if (seen := _engine.look(value, False)) is not None:
        return Buffer(*seen, value)
    array = np.ascontiguousarray(as_array(value))
    return Buffer(array.ctypes.data, array.size, _dtype(array), array)


def write(value: Any) -> Buffer:
    """A buffer to read from and write to; call `give_back` after the operation."""
    if (seen := _engine.look(value, True)) is not None:
        return Buffer(*seen, value)
    array = as_array(value)
    if not array.flags.writeable:
        raise ValueError("this array is read-only, but the result of the collective belongs in it")
    memory = np.ascontiguousarray(array)
    copied = not array.flags.c_contiguous
    return Buffer(memory.ctypes.data, memory.size, _dtype(array), memory, array if copied else None)


def _dtype(array: NDArray[Any]) -> int:
    number = DTYPES.get(array.dtype.name)
    if number is None or not array.dtype.isnative:
        raise TypeError(f"dtype {array.dtype} is not supported; use one of {', '.join(DTYPES)}")
    return number
