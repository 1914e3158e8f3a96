"""Every collective, dtype and reduction on random data, against NumPy in float64 or exact integers.

Argument: how ranks are spread over machines, e.g. "0011".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"]
COUNTS = [0, 1, 5, 300, 2049, 70_001]
REDUCTIONS = {
    "sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


def data_of(rank: int, count: int, dtype: str, seed: int) -> Array:
    """What `rank` puts in: whole numbers so small that every order of combination gives the same bits."""
    return np.random.default_rng([seed, rank]).integers(0, 3, count).astype(dtype)


def expected(op: str, inputs: list[Array]) -> Array:
    dtype = inputs[0].dtype
    if dtype.kind == "b" and op in ("sum", "product"):
        op = {"sum": "bor", "product": "band"}[op]
    if op == "avg":
        total = reduce(np.add, [x.astype(np.float64) for x in inputs]) / len(inputs)
        return np.trunc(total).astype(dtype) if dtype.kind in "iu" else total.astype(dtype)
    return np.asarray(reduce(REDUCTIONS[op], inputs)).astype(dtype)


def defined(op: str, dtype: str) -> bool:
    if op in ("band", "bor", "bxor"):
        return not dtype.startswith("float")
    return not (op == "avg" and dtype == "bool")


def equal(got: Array, want: Array) -> bool:
    # An average of float16 is rounded once from float32, NumPy's from float64: at most one unit apart.
    if got.dtype.kind == "f":
        return bool(np.allclose(got, want, rtol=float(np.finfo(got.dtype).eps), atol=0))
    return bool(np.array_equal(got, want))


def check_reductions(group: Any, count: int, dtype: str) -> None:
    for seed, op in enumerate([*REDUCTIONS, "avg"]):
        if not defined(op, dtype):
            continue
        inputs = [data_of(rank, count, dtype, seed) for rank in range(group.size)]
        want = expected(op, inputs)
        mine = inputs[group.rank].copy()
        group.all_reduce(mine, op)
        assert equal(mine, want), (op, dtype, count)
        root = seed % group.size
        mine = inputs[group.rank].copy()
        group.reduce(mine, root, op)
        assert equal(mine, want if group.rank == root else inputs[group.rank]), (op, dtype, count)
        share = count // group.size
        part = np.empty(share, dtype)
        group.reduce_scatter(part, inputs[group.rank][: share * group.size], op)
        assert equal(part, want[group.rank * share : (group.rank + 1) * share]), (op, dtype, count)


def check_averages_of_integers(group: Any) -> None:
    """They are what their sum wraps round to, divided towards zero, as on the other faces."""
    for count in (3, 3000, 300_000):
        for value in (100, -3, 127):
            mine = np.full(count, value if group.rank < 2 else 0, np.int8)
            group.all_reduce(mine, "avg")
            total = np.array(value * min(2, group.size)).astype(np.int8)
            assert (mine == int(int(total) / group.size)).all(), (count, value, mine[0])


def check_movements(group: Any, count: int, dtype: str) -> None:
    inputs = [data_of(rank, count, dtype, 99) for rank in range(group.size)]
    mine, everything = inputs[group.rank], np.concatenate(inputs)
    gathered = np.empty_like(everything)
    group.all_gather(gathered, mine)
    assert np.array_equal(gathered, everything)
    for root in range(group.size):
        copy = mine.copy()
        group.broadcast(copy, root)
        assert np.array_equal(copy, inputs[root])
        gathered = np.empty_like(everything)
        group.gather(mine, gathered if group.rank == root else None, root)
        assert group.rank != root or np.array_equal(gathered, everything)
        part = np.empty_like(mine)
        group.scatter(part, everything if group.rank == root else None, root)
        assert np.array_equal(part, mine)
    # Uneven blocks: rank i sends i + j elements to rank j.
    sends = [min(count, group.rank + other) for other in range(group.size)]
    recvs = [min(count, other + group.rank) for other in range(group.size)]
    out = np.concatenate([inputs[group.rank][:n] for n in sends])
    got = np.empty(sum(recvs), dtype)
    group.all_to_all(got, out, recvs, sends)
    assert np.array_equal(got, np.concatenate([inputs[other][:n] for other, n in enumerate(recvs)]))


def check_awkward_memory(group: Any) -> None:
    """Non-contiguous and unaligned arrays, and buffers that are not NumPy's."""
    grid = np.full((40, 60), group.rank + 1, np.float32)
    group.all_reduce(grid[::2, ::3])
    total = group.size * (group.size + 1) / 2
    assert (grid[::2, ::3] == total).all() and (grid[1::2] == group.rank + 1).all()
    unaligned = np.zeros(4 * 5000 + 1, np.uint8)[1:].view(np.float32)
    unaligned[:] = group.rank + 1
    group.all_reduce(unaligned)
    assert (unaligned == total).all()
    raw = bytearray([group.rank] * 10)
    group.all_reduce(raw, "max")
    assert raw == bytes([group.size - 1] * 10)


def check_done(group: Any) -> None:
    """What is done is where it belongs, and nothing writes there later."""
    grid = np.full((40, 60), group.rank + 1, np.float32)
    total = group.size * (group.size + 1) / 2
    for column in (grid[:, 0], grid[:, 1]):
        operation = group.all_reduce(column, async_op=True)
        while not operation.done():
            pass
        assert (column == total).all()
        column[:] = 7
        assert operation.done()
        operation.wait()
        assert (column == 7).all()
    assert (grid[:, 2:] == group.rank + 1).all()
    group.barrier()


def check_shared_memory_of_arguments(group: Any) -> None:
    """This rank's own part may lie where it belongs; what overlaps otherwise is refused before it starts."""
    me, size = group.rank, group.size
    for count in (8, 3000, 70_001):
        own = slice(me * count, (me + 1) * count)
        whole = np.zeros(size * count, np.float32)
        whole[own] = me + 1
        group.all_gather(whole, whole[own])
        assert (whole.reshape(size, count) == np.arange(1, size + 1)[:, None]).all()
        for op, wanted in (("sum", sum(range(1, size + 1)) + size * me), ("max", size + me)):
            whole = np.repeat(np.arange(size, dtype=np.float32) + me + 1, count)
            group.reduce_scatter(whole[own], whole, op)
            assert (whole[own] == wanted).all(), (count, op)
        root = np.full(size * count, me, np.float32)
        if me == 0:
            group.gather(root[:count], root)
            assert (root.reshape(size, count) == np.arange(size)[:, None]).all()
            group.scatter(root[:count], root)
        else:
            group.gather(root[:count])
            group.scatter(root[:count])
            assert (root[:count] == me).all()
        room = np.zeros(2 * size * count + 1, np.float32)
        output, shifted, between = room[: size * count], room[1 : 1 + size * count], room[own.start + 1 : own.stop + 1]
        refused = [partial(group.all_gather, output, between), partial(group.reduce_scatter, between, output)]
        refused += [partial(group.all_to_all, output, shifted)]
        if size > 1:
            other = room[(me + 1) % size * count :][:count]
            refused += [partial(group.all_gather, output, other), partial(group.reduce_scatter, other, output)]
            refused += [partial(group.all_to_all, output, output)]
        for call in refused:
            assert "overlap" in refusal(call), (count, call)
            assert "overlap" in refusal(partial(call, async_op=True)), (count, call)
    group.barrier()


def check_point_to_point(group: Any) -> None:
    if group.size == 1:
        return
    succ, pred = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    for count in (0, 3, 100_000):
        out = np.full(count, group.rank, np.int32)
        first, second = np.empty_like(out), np.empty_like(out)
        pending = [
            group.send(out, succ, tag=1, async_op=True),
            group.send(out + 10, succ, tag=2, async_op=True),
            group.recv(second, pred, tag=2, async_op=True),
            group.recv(first, None, tag=1, async_op=True),
        ]
        for operation in pending:
            operation.wait()
        assert pending[3].source == pred
        assert (first == pred).all() and (second == pred + 10).all()
        group.sendrecv(out, succ, first, pred, tag=3)
        assert (first == pred).all()
    grid = np.full((40, 60), group.rank)
    group.sendrecv(grid[::2], succ, grid[1::2], pred)
    assert (grid[::2] == group.rank).all() and (grid[1::2] == pred).all()
    for output in (out, out[4:]):
        assert "overlap" in refusal(partial(group.sendrecv, out, succ, output, pred))


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def check_groups(group: Any) -> None:
    part = group.split(group.rank % 2, key=-group.rank)
    value = np.array([part.rank])
    part.all_reduce(value)
    assert value[0] == part.size * (part.size - 1) // 2
    # Operations of both groups in flight, finished in opposite orders.
    a, b = np.ones(5000), np.ones(7000)
    first, second = group.all_reduce(a, async_op=True), part.all_reduce(b, async_op=True)
    for operation in (first, second) if group.rank % 2 else (second, first):
        operation.wait()
    assert (a == group.size).all() and (b == part.size).all()
    part.close()


def main(machines: str) -> None:
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline

    with paceline.init(timeout=60) as group:
        for dtype in DTYPES:
            for count in COUNTS:
                check_reductions(group, count, dtype)
                check_movements(group, count, dtype)
        check_awkward_memory(group)
        check_done(group)
        check_averages_of_integers(group)
        check_shared_memory_of_arguments(group)
        check_point_to_point(group)
        check_groups(group)
        group.barrier()


if __name__ == "__main__":
    main(sys.argv[1])
