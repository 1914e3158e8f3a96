"""An all-reduce from one buffer to another gives the bits of one in place, and leaves its input as it was.

Argument: how ranks are spread over machines, e.g. "0011".
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

os.environ["PACELINE_MACHINE"] = sys.argv[1][int(os.environ["RANK"])]

import paceline
from paceline import _engine

COUNTS = (0, 1, 7, 3_001, 70_001)
LARGE, CALLS = 1_000_001, 3
"""Elements of calls that are made so often, in all, that every method of large ones has its turn."""
KINDS = [("private", "private"), ("arena", "private"), ("private", "arena"), ("arena", "arena")]

Bytes = NDArray[np.uint8]


def given(rank: int, count: int, dtype: str) -> Bytes:
    """What `rank` puts in: any bits for integers, else numbers whose sums are rounded."""
    random = np.random.default_rng([count, rank])
    size = _engine.SIZES[_engine.DTYPES[dtype]]
    if dtype == "bfloat16":  # the upper halves of float32
        return random.standard_normal(count).astype(np.float32).view(np.uint16)[1::2].copy().view(np.uint8)
    if dtype == "bool":
        return random.integers(0, 2, count, np.uint8)
    if dtype.startswith("float"):
        return random.standard_normal(count).astype(dtype).view(np.uint8)
    return random.integers(0, 256, count * size, np.uint8)


def memory(kind: str, size: int) -> Bytes:
    return paceline.empty(size, np.uint8) if kind == "arena" else np.empty(size, np.uint8)


with paceline.init(timeout=100) as group:
    native = group.native

    def reduce(source: Bytes, to: Bytes, count: int, dtype: str, op: str, factor: float) -> None:
        call = _engine.CollectiveCall(
            "all_reduce",
            source=source.ctypes.data,
            target=to.ctypes.data,
            count=count,
            dtype=_engine.DTYPES[dtype],
            op=_engine.OPS[op],
            factor=factor,
        )
        native.start(call, _engine.BLOCKING)

    def check(count: int, dtype: str, op: str, kinds: tuple[str, str], alone: bool, calls: int = 1) -> None:
        """alone: all ranks but this one work in place."""
        factor = 0.5 if op == "PREMUL_SUM" else 1.0
        mine = given(group.rank, count, dtype)
        wanted = mine.copy()
        reduce(wanted, wanted, count, dtype, op, factor)
        source, to = (memory(kind, mine.size) for kind in kinds)
        for _ in range(calls):
            source[:] = mine
            to[:] = 0xA5
            if alone and group.rank != count % group.size:
                reduce(source, source, count, dtype, op, factor)
                to[:] = source
            else:
                reduce(source, to, count, dtype, op, factor)
                assert (source == mine).all(), (count, dtype, op, kinds)
            assert (to == wanted).all(), (count, dtype, op, kinds)

    for number, dtype in enumerate(_engine.DTYPES):
        for op in ("SUM", "AVG", "PREMUL_SUM", "MAX"):
            if not _engine.supports(_engine.DTYPES[dtype], _engine.OPS[op]):
                continue
            for count in COUNTS:
                check(count, dtype, op, KINDS[number % len(KINDS)], alone=count == 3_001)
    for kinds in KINDS:
        for alone in (False, True):
            check(LARGE, "float32", "SUM", kinds, alone, CALLS)

    data = np.zeros(400_000, np.uint8)
    with pytest.raises(ValueError, match="input and output overlap in part; they must be the same buffer, or apart"):
        reduce(data, data[4:], 99_999, "float32", "SUM", 1.0)
    group.barrier()
