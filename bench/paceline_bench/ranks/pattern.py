"""Exact test data: small integers, so that every sum is exact in every dtype and can be compared bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64")
OPS = ("sum", "product", "min", "max")

# The period in elements is prime, so blocks of any chunking start at different places and misplaced data looks wrong.
PERIOD = 8191

_LARGEST_EXACT = {"float16": 2048, "bfloat16": 256, "int8": 127, "uint8": 255}


def storage(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype that holds `dtype`; bfloat16, which NumPy lacks, is held as its 16 bits."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def encode(values: Array, dtype: str) -> Array:
    """Return small integers as `dtype`, in its storage."""
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32) >> np.uint32(16)
        return bits.astype(np.uint16)
    return values.astype(storage(dtype))


def contribution(source: int, ranks: int, dtype: str, op: str, seed: int) -> Array:
    """Return one period (int64[PERIOD]) of the input of `source`; any number may stand for a source.

    For products each value is 1 or 2 and at most one rank has a 2 in a place; other values are below the dtype's exact
    limit divided by the ranks.
    """
    index = np.arange(PERIOD, dtype=np.int64)
    if op == "product":
        return np.where((index + seed) % (2 * ranks) == source, 2, 1)
    modulus = max(2, min(1021, _LARGEST_EXACT.get(dtype, 1 << 24) // ranks))
    return (index * (2 * source + 3) + index // 7 + source + seed) % modulus


def combine(contributions: list[Array], op: str) -> Array:
    """Return the result of `op` over the contributions."""
    functions = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}
    result: Array = functions[op].reduce(contributions)
    return result


def fill(buffer: Array, period: Array) -> None:
    """Repeat `period` over `buffer`."""
    whole = len(buffer) // PERIOD * PERIOD
    buffer[:whole].reshape(-1, PERIOD)[:] = period
    buffer[whole:] = period[: len(buffer) - whole]


def count_wrong(buffer: Array, period: Array) -> int:
    """Return the number of elements of `buffer` that differ from the repeated `period`."""
    whole = len(buffer) // PERIOD * PERIOD
    wrong = np.count_nonzero(buffer[:whole].reshape(-1, PERIOD) != period)
    return int(wrong) + int(np.count_nonzero(buffer[whole:] != period[: len(buffer) - whole]))
