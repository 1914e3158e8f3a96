"""Memory that requests name: what arrays it can be made of."""

from __future__ import annotations

import numpy as np
import pytest

from paceline._engine import DTYPES
from paceline.coordinate import Span


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(7,), (2, 3, 4), ()])
def test_it_is_the_memory_of_the_array_itself(shape: tuple[int, ...], dtype: str) -> None:
    array = np.zeros(shape, dtype)
    assert Span.of(array) == (array.ctypes.data, array.size, DTYPES[dtype])
    assert Span.of(memoryview(array)) == Span.of(array)


def test_no_copy_is_made_in_silence() -> None:
    with pytest.raises(ValueError, match=r"an array of shape \(3, 2\) is not contiguous: submit numpy"):
        Span.of(np.zeros((2, 3)).T)


@pytest.mark.parametrize("array", [np.zeros(3, "complex64"), np.zeros(3, ">f4"), 3])
def test_what_the_engine_does_not_know_is_refused(array: object) -> None:
    with pytest.raises(TypeError, match=r"dtype .* is not supported|expected an array"):
        Span.of(array)
