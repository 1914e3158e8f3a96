"""Tensors that are combined together: each once, in buffers that are no larger than they may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from paceline import _engine
from paceline.jax.execution import Memory
from paceline.jax.fusion import Buckets

MOST = 256
"""Bytes."""
DTYPES = {_engine.DTYPES[name]: np.dtype(name) for name in ("float32", "float64", "int8")}


@given(some.lists(some.tuples(some.sampled_from(sorted(DTYPES)), some.integers(0, 100)), max_size=30))
def test_every_tensor_is_in_one_buffer(tensors: Sequence[tuple[int, int]]) -> None:
    arrays = [np.full(count, i, DTYPES[dtype]) for i, (dtype, count) in enumerate(tensors)]
    results = [np.full_like(array, -1) for array in arrays]
    codes = [dtype for dtype, _ in tensors]
    sources, targets = (
        [Memory(one.ctypes.data, one.size, code) for one, code in zip(each, codes, strict=True)]
        for each in (arrays, results)
    )
    sizes = []
    for source, target, count, dtype in Buckets(MOST).filled(sources, targets):
        size = count * DTYPES[dtype].itemsize
        sizes.append((size, dtype))
        if count:
            numbers = np.ctypeslib.as_ctypes_type(DTYPES[dtype]) * count
            given, data = (np.ctypeslib.as_array(numbers.from_address(address)) for address in (source, target))
            np.add(given, 1, out=data)
    assert all((array == i).all() for i, array in enumerate(arrays))
    assert all((result == i + 1).all() for i, result in enumerate(results))
    largest = max((array.nbytes for array in arrays), default=0)
    assert all(size <= max(MOST, largest) for size, _ in sizes)
    fewest = {dtype: sum(array.nbytes for array in arrays if array.dtype == DTYPES[dtype]) for dtype in DTYPES}
    for dtype, total in fewest.items():  # next-fit: each two buffers in a row are more than one may hold
        assert sum(code == dtype for _, code in sizes) <= 2 * total / MOST + 1, sizes
