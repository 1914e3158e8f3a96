"""Tensors as a kernel sees them: memory at an address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from paceline import _engine
from paceline.coordinate import Span

INT32 = int(tf.int32.as_datatype_enum)
"""TensorFlow's number of int32."""
_CODES = _engine.DTYPES | _engine.MOVED_DTYPES


@dataclass(frozen=True, slots=True)
class Memory:
    """A tensor's memory, which is contiguous and belongs to TensorFlow until its call is over.

    dtype: TensorFlow's number of it.
    """

    address: int
    bytes: int
    dtype: int
    shape: tuple[int, ...]

    def span(self) -> Span:
        """Return the memory as the coordinator takes it. Dtypes that the engine does not know are sent as bytes."""
        code = codes(self.dtype)[0]
        return Span(self.address, self.bytes // _engine.SIZES[code], code)

    def array(self) -> NDArray[Any]:
        """Return the memory as an array, which does not keep it alive."""
        dtype = numpy_dtype(self.dtype)
        if not self.bytes:
            return np.empty(self.shape, dtype)
        numbers: NDArray[Any] = np.ctypeslib.as_array((ctypes.c_uint8 * self.bytes).from_address(self.address)).view(
            dtype
        )
        return numbers.reshape(self.shape)

    def foreign(self) -> str:
        """Return the dtype if the elements are sent as bytes, as the coordinator's `of`; "" for one that it has."""
        return "" if numpy_dtype(self.dtype).name in _CODES else f"{numpy_dtype(self.dtype).name} "

    def floating(self) -> bool:
        """Return whether the elements are floating-point numbers."""
        return floating(self.dtype)

    def rows(self, call: str) -> int:
        """Return the length of the first dimension, along which `call` splits and concatenates.

        Raises ValueError for a scalar.
        """
        if not self.shape:
            raise ValueError(f"{call} needs a tensor with a first dimension, not a scalar; tf.reshape(x, [1]) has one")
        return self.shape[0]

    def row_width(self) -> int:
        """Return the number of elements of `span` in a row."""
        return prod(self.shape[1:]) * codes(self.dtype)[1]


@cache
def numpy_dtype(dtype: int) -> np.dtype[Any]:
    """Return NumPy's dtype for TensorFlow's."""
    known: np.dtype[Any] = np.dtype(tf.dtypes.as_dtype(dtype).as_numpy_dtype)
    return known


@cache
def floating(dtype: int) -> bool:
    """Return whether TensorFlow's dtype is one of floating-point numbers."""
    return bool(tf.dtypes.as_dtype(dtype).is_floating)


@cache
def codes(dtype: int) -> tuple[int, int]:
    """Return the engine's number of a dtype, and how many of the engine's elements make up one of TensorFlow's."""
    known = numpy_dtype(dtype)
    code = _CODES.get(known.name)
    return (_CODES["bytes"], known.itemsize) if code is None else (code, 1)


def combined(memory: Memory) -> bool:
    """Return whether the engine can reduce tensors of this dtype."""
    return numpy_dtype(memory.dtype).name in _engine.DTYPES


def reducible(memory: Memory) -> None:
    """Raise ValueError unless the engine can reduce tensors of this dtype."""
    if not combined(memory):
        names = ", ".join(_engine.DTYPES)
        raise ValueError(f"a reduction takes {names}, not {tf.dtypes.as_dtype(memory.dtype).name}")


def scale(numbers: NDArray[Any], factor: float) -> None:
    """Multiply integers in place, in float64 and rounding towards zero as Horovod does.

    The engine scales only floating-point numbers.
    """
    if factor != 1.0:
        numbers[...] = (numbers.astype(np.float64) * factor).astype(numbers.dtype)


def read(description: Sequence[int]) -> list[Memory]:
    """Return the tensors of a call from the description that the library gives."""
    tensors, position = [], 1
    for _ in range(description[0]):
        address, size, dtype, rank = description[position : position + 4]
        position += 4 + rank
        tensors.append(Memory(address, size, dtype, tuple(description[position - rank : position])))
    return tensors
