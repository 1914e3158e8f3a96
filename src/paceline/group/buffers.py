"""Arrays as the engine sees them: an address, a count and a dtype."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from paceline import _engine

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

DTYPES: dict[str, int] = _engine.DTYPES


class SupportsBuffer(Protocol):
    """Anything with Python's buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


@runtime_checkable
class SupportsDLPack(Protocol):
    """Anything that hands out its memory as DLPack describes it."""

    def __dlpack__(self, /, *, stream: int | None = None) -> CapsuleType: ...


_OLD_DLPACK = "; NumPy takes as read-only whatever was exported by DLPack before 1.0"

AnyArray: TypeAlias = NDArray[np.generic]  # type: ignore[explicit-any]  # numpy has no other word for any dtype
"""A NumPy array of any shape and dtype."""

Array: TypeAlias = SupportsBuffer | SupportsDLPack
"""The arrays that collectives take: NumPy arrays, memoryviews, CPU tensors, and anything like them."""

_giving_back = threading.Lock()


@dataclass(slots=True)
class Buffer:
    """Contiguous memory that stays alive as long as this does."""

    address: int
    count: int
    dtype: int
    memory: object
    copy: tuple[AnyArray, AnyArray] | None = None
    """The array that the result belongs in and the one that it is put in, if those differ."""

    @property
    def dtype_name(self) -> str:
        """The name of the dtype in NumPy."""
        return next(name for name, number in DTYPES.items() if number == self.dtype)

    def give_back(self) -> None:
        """Copy the result to where it belongs, once the operation is over. Further calls do nothing. Thread-safe."""
        if self.copy is None:
            return
        with _giving_back:
            if self.copy is not None:
                target, result = self.copy
                np.copyto(target, result.reshape(target.shape))
                self.copy = None


def as_array(value: Array) -> AnyArray:
    """A NumPy view of `value`; never a copy.

    Raises TypeError if it has neither the buffer protocol nor DLPack, or if NumPy cannot take what DLPack hands out.
    """
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, SupportsDLPack):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, ValueError) as error:
            raise TypeError(f"NumPy cannot take this {type(value).__name__} by DLPack: {error}") from None
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        if hasattr(value, "__cuda_array_interface__"):
            raise TypeError("this array lies in the memory of a device, which send and recv do not serve") from None
        raise TypeError(f"expected an array (buffer protocol or DLPack), got {type(value).__name__}") from None


def read(value: Array) -> Buffer:
    """A buffer to read from: copied if it is not contiguous.

    Raises TypeError for what is no array, and for a dtype that the engine does not have.
    """
    if (seen := _engine.look(value, False)) is not None:
        return Buffer(*seen, value)
    array = np.ascontiguousarray(as_array(value))
    return Buffer(array.ctypes.data, array.size, _dtype(array), array)


def write(value: Array) -> Buffer:
    """A buffer to read from and write to; call `give_back` after the operation.

    Raises TypeError as `read` does, ValueError if the array is read-only.
    """
    if (seen := _engine.look(value, True)) is not None:
        return Buffer(*seen, value)
    array = as_array(value)
    if not array.flags.writeable:
        why = "" if isinstance(value, np.ndarray) or not isinstance(value, SupportsDLPack) else _OLD_DLPACK
        raise ValueError(f"this array is read-only, but the result of the collective belongs in it{why}")
    memory = np.ascontiguousarray(array)
    copy = None if array.flags.c_contiguous else (array, memory)
    return Buffer(memory.ctypes.data, memory.size, _dtype(array), memory, copy)


def _dtype(array: AnyArray) -> int:
    number = DTYPES.get(array.dtype.name)
    if number is None or not array.dtype.isnative:
        raise TypeError(f"dtype {array.dtype} is not supported; use one of {', '.join(DTYPES)}")
    return number
