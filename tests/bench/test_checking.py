"""The check of results: right data passes in every collective, dtype and op, and any planted error is counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_bench import bandwidth, sizes
from paceline_bench.ranks import pattern
from paceline_bench.ranks.case import IN_PLACE, REDUCING, Buffers, Case, aligned

SEED = 5


def decode(buffer, dtype):
    if dtype == "bfloat16":
        return (buffer.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return buffer


def encode(values, dtype):
    if dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return values.astype(pattern.storage(dtype))


def perform(everybody):
    """The collective by its definition, over the buffers of all ranks at once."""
    case = everybody[0].case
    dtype, ranks = case.dtype, case.ranks
    inputs = [decode(buffers.source, dtype).copy() for buffers in everybody]
    blocks = [np.split(values, ranks) for values in inputs] if len(inputs[0]) % ranks == 0 else []
    function = {"sum": np.add, "product": np.multiply, "min": np.minimum, "max": np.maximum}[case.op]
    for rank, buffers in enumerate(everybody):
        if case.collective == "barrier" or (case.collective == "reduce" and rank != case.root):
            continue
        outputs = {
            "all_reduce": lambda: function.reduce(inputs),
            "reduce": lambda: function.reduce(inputs),
            "broadcast": lambda: inputs[case.root],
            "all_gather": lambda: np.concatenate(inputs),
            "reduce_scatter": lambda rank=rank: function.reduce([parts[rank] for parts in blocks]),
            "all_to_all": lambda rank=rank: np.concatenate([parts[rank] for parts in blocks]),
            "sendrecv": lambda rank=rank: inputs[(rank - 1) % ranks],
        }
        buffers.target[:] = encode(outputs[case.collective](), dtype)


def loaded(collective, ranks, dtype="float32", op="sum", size=40_000, root=0):
    count = sizes.elements(size, dtype, collective, ranks)
    everybody = [Buffers(Case(collective, dtype, op, count, root, rank, ranks), aligned) for rank in range(ranks)]
    for buffers in everybody:
        buffers.load(SEED)
    return everybody


def wrong(everybody):
    return [buffers.count_wrong(SEED) for buffers in everybody]


@given(
    collective=st.sampled_from(sorted(bandwidth.BUS_FACTORS)),
    ranks=st.integers(1, 5),
    dtype=st.sampled_from(pattern.DTYPES),
    op=st.sampled_from(pattern.OPS),
    size=st.sampled_from([1, 8, 4096, 70_000]),
)
def test_the_right_result_passes(collective, ranks, dtype, op, size):
    everybody = loaded(collective, ranks, dtype, op, size, root=ranks - 1)
    perform(everybody)
    assert wrong(everybody) == [0] * ranks


@pytest.mark.parametrize("collective", sorted(set(bandwidth.BUS_FACTORS) - {"barrier"}))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_one_planted_error_is_counted_once(collective, dtype):
    everybody = loaded(collective, 2, dtype)
    perform(everybody)
    target = everybody[0].target
    target[len(target) // 2] += 1
    assert wrong(everybody) == [1, 0]


@pytest.mark.parametrize("collective", sorted(set(bandwidth.BUS_FACTORS) - {"barrier"}))
def test_doing_nothing_is_wrong(collective):
    everybody = loaded(collective, 4)
    counts = wrong(everybody)
    silent = 0 if collective in IN_PLACE else 1
    who = {"broadcast": [1, 2, 3], "reduce": [0]}.get(collective, [0, 1, 2, 3])
    for rank in who:
        assert counts[rank] > 0.9 * len(everybody[rank].target) - silent


@pytest.mark.parametrize("collective", ["all_gather", "all_to_all", "reduce_scatter"])
def test_exchanged_blocks_are_wrong(collective):
    everybody = loaded(collective, 4, size=1 << 20)
    perform(everybody)
    if collective == "reduce_scatter":
        first, second = everybody[0].target, everybody[1].target
    else:
        first, second = np.split(everybody[0].target, 4)[:2]
    first[:], second[:] = second.copy(), first.copy()
    assert wrong(everybody)[0] > len(everybody[0].target) // 4


def test_a_stale_result_of_another_seed_is_wrong():
    for collective in REDUCING:
        everybody = loaded(collective, 2)
        perform(everybody)
        assert everybody[0].count_wrong(SEED + 1) > 0.9 * len(everybody[0].target)


@pytest.mark.parametrize("op", pattern.OPS)
def test_zeros_stay_zeros_when_calls_are_repeated(op):
    everybody = loaded("all_reduce", 3, "float16", op)
    for buffers in everybody:
        buffers.clear()
    for _ in range(50):
        perform(everybody)
    assert not everybody[0].target.any()


def test_buffers_are_aligned_for_every_system():
    for dtype in pattern.DTYPES:
        buffers = loaded("all_gather", 2, dtype)[0]
        assert buffers.source.ctypes.data % 64 == 0
        assert buffers.target.ctypes.data % 64 == 0
