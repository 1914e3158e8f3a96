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

from paceline.errors import CommunicationError, Mismatch
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.tensorflow.kernels.memory import Memory, numpy_dtype
from paceline.horovod.tensorflow.kernels.residuals import Residuals


@dataclass(frozen=True, slots=True)
class Functions:
    """What the library does with the number of a call; see engine/tensorflow/kernels.cpp."""

    allocate: Callable[[int, int, int, ctypes.Array[ctypes.c_int64], int, int], int | None]
    finish: Callable[[int, int, bytes], None]
    finish_with_inputs: Callable[[int], None]
    go_on: Callable[[int], None]
    release: Callable[[int], None]


class Call:
    """An op that TensorFlow waits for. Its inputs are in `tensors`, and it ends once: it succeeds, fails or goes on.

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
        self._do.finish(self._number, 0, b"")

    def succeed_with_inputs(self) -> None:
        """End the call. Its outputs are its first inputs, as they are now."""
        self._do.finish_with_inputs(self._number)

    def go_on(self) -> None:
        """End the call, but keep `tensors` until `release`; until then nobody else may use the outputs."""
        self._do.go_on(self._number)

    def release(self) -> None:
        """Give the tensors of a call that went on back to TensorFlow."""
        self._do.release(self._number)

    def fail(self, error: BaseException) -> None:
        """End the call with an error, which TensorFlow raises as one of its own."""
        self._do.finish(self._number, _code(error), f"{self.op}: {error}".encode())


def _code(error: BaseException) -> int:
    cause = error.__cause__ if isinstance(error, HorovodInternalError) else error
    if isinstance(cause, Mismatch):
        return int(tf.errors.FAILED_PRECONDITION)
    if isinstance(cause, CommunicationError):
        return int(tf.errors.UNKNOWN)
    return int(tf.errors.INVALID_ARGUMENT if isinstance(cause, ValueError) else tf.errors.INTERNAL)
