"""One execution of an op, and its end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from paceline._engine import PreparedAllReduce
from paceline.errors import CommunicationError, Mismatch
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.tensorflow.kernels.memory import Memory, numpy_dtype
from paceline.horovod.tensorflow.kernels.residuals import Residuals


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of the library that take the number of a call; see engine/tensorflow/kernels.cpp."""

    allocate: Callable[[int, int, int, ctypes.Array[ctypes.c_int64], int, int], int | None]
    end: Callable[[int, int, bytes], None]
    repeat: Callable[[int, int], None]


class Call:
    """An execution of an op. It ends once: it succeeds or fails, or is repeated.

    op: the type of the op. tensors: its inputs, or for an op that changes them in place its outputs, which hold the
    inputs' contents. residuals: what error feedback keeps in this process.
    """

    def __init__(
        self, op: str, number: int, tensors: Sequence[Memory], residuals: Residuals, functions: Functions
    ) -> None:
        self.op, self.tensors, self.residuals = op, tensors, residuals
        self._number, self._do = number, functions

    def output(self, index: int, dtype: int, shape: Sequence[int]) -> Memory:
        """Make an output of this dtype, TensorFlow's number of it, and shape.

        Raises MemoryError if TensorFlow has no memory for it.
        """
        size = prod(shape) * numpy_dtype(dtype).itemsize
        address = self._do.allocate(self._number, index, dtype, (ctypes.c_int64 * len(shape))(*shape), len(shape), size)
        if size and not address:
            raise MemoryError(f"TensorFlow has no {size} bytes for the result of {self.op}")
        return Memory(address or 0, size, dtype, tuple(shape))

    def give(self, index: int, dtype: int, shape: Sequence[int], data: NDArray[Any]) -> None:
        """Make an output with the contents of `data`, an array of as many bytes."""
        made = self.output(index, dtype, shape)
        if made.bytes:
            ctypes.memmove(made.address, np.ascontiguousarray(data).ctypes.data, made.bytes)

    def succeed(self) -> None:
        """End the call. Its outputs are there."""
        self._do.end(self._number, 0, b"")

    def repeat(self, prepared: PreparedAllReduce) -> None:
        """Leave the call to what was prepared for it, and so all calls of the same op with tensors of these shapes."""
        self._do.repeat(self._number, prepared.address)

    def fail(self, error: BaseException) -> None:
        """End the call with an error, which TensorFlow raises as one of its own."""
        self._do.end(self._number, _code(error), f"{self.op}: {error}".encode())


def _code(error: BaseException) -> int:
    cause = error.__cause__ if isinstance(error, HorovodInternalError) else error
    if isinstance(cause, Mismatch):
        return int(tf.errors.FAILED_PRECONDITION)
    if isinstance(cause, CommunicationError):
        return int(tf.errors.UNKNOWN)
    return int(tf.errors.INVALID_ARGUMENT if isinstance(cause, ValueError) else tf.errors.INTERNAL)
