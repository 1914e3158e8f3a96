"""Every collective on every dtype against exact references: small integers, whose sums every dtype holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp
from torch_ranks import Ranks

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
MOVED = [torch.bool, torch.int16, torch.uint16, torch.complex64, torch.complex128, torch.float8_e4m3fn]
SIZES = [0, 1, 7, 1000, 65537]


def numbers(seed: int, count: int, dtype: torch.dtype) -> Tensor:
    """Integers 0 to 3, the same in all processes that ask with one seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 4, (count,), generator=generator).to(dtype)


def everybody(size: int, count: int, dtype: torch.dtype) -> Tensor:
    return torch.stack([numbers(rank, count, dtype) for rank in range(size)])


def combine(values: Tensor, op: Any) -> Tensor:
    wide = values.to(torch.float64 if values.is_floating_point() else torch.int64)
    combiners: dict[Any, Callable[[], Tensor]] = {
        ReduceOp.SUM: lambda: wide.sum(0),
        ReduceOp.PRODUCT: lambda: wide.prod(0),
        ReduceOp.MIN: lambda: wide.amin(0),
        ReduceOp.MAX: lambda: wide.amax(0),
        ReduceOp.AVG: lambda: wide.sum(0) / len(values),
        ReduceOp.BAND: lambda: _fold(wide, torch.bitwise_and),
        ReduceOp.BOR: lambda: _fold(wide, torch.bitwise_or),
        ReduceOp.BXOR: lambda: _fold(wide, torch.bitwise_xor),
    }
    return combiners[op]().to(values.dtype)


def _fold(values: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    result = values[0]
    for value in values[1:]:
        result = function(result, value)
    return result


def reductions(dtype: torch.dtype) -> list[Any]:
    arithmetic = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
    return [*arithmetic, ReduceOp.AVG] if dtype in FLOATS else [*arithmetic, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]


def check_all_reduce(rank: int, size: int) -> None:
    for dtype in FLOATS + INTEGERS:
        for op in reductions(dtype):
            for count in SIZES if op == ReduceOp.SUM else (0, 7, 1000):
                expected = combine(everybody(size, count, dtype), op)
                tensor = numbers(rank, count, dtype)
                dist.all_reduce(tensor, op)
                _same(tensor, expected, f"{dtype} {op} {count}")
                tensor = numbers(rank, count, dtype)
                work = dist.all_reduce(tensor, op, async_op=True)
                assert work is not None
                assert work.get_future().wait()[0].data_ptr() == tensor.data_ptr()
                work.wait()
                _same(tensor, expected, f"async {dtype} {op} {count}")


def check_reduce_and_reduce_scatter(rank: int, size: int) -> None:
    for dtype in FLOATS + INTEGERS:
        for op in reductions(dtype):
            for count in (0, 5, 300):
                expected = combine(everybody(size, count * size, dtype), op)
                mine = expected[rank * count : (rank + 1) * count]
                for root in range(size):
                    tensor = numbers(rank, count * size, dtype)
                    dist.reduce(tensor, root, op)
                    if rank == root:
                        _same(tensor, expected, f"reduce {dtype} {op} {count}")
                source = numbers(rank, count * size, dtype)
                target = torch.empty(count, dtype=dtype)
                dist.reduce_scatter_tensor(target, source, op)
                _same(target, mine, f"reduce_scatter_tensor {dtype} {op} {count}")
                _same(source, numbers(rank, count * size, dtype), "input of reduce_scatter_tensor")
                target = torch.empty(count, dtype=dtype)
                dist.reduce_scatter(
                    target, [part.clone() for part in source.chunk(size)] if count else [target] * size, op
                )
                _same(target, mine, f"reduce_scatter {dtype} {op} {count}")


def check_reduce_scatter_uneven(rank: int, size: int) -> None:
    parts = [torch.full((other + 1,), float(rank + 1)) for other in range(size)]
    target = torch.empty(rank + 1)
    dist.reduce_scatter(target, parts)
    _same(target, torch.full((rank + 1,), size * (size + 1) / 2.0), "uneven reduce_scatter")


def check_premultiplied_sum(rank: int, size: int) -> None:
    op = dist._make_nccl_premul_sum(0.5)
    tensor = torch.full((9,), 4.0)
    dist.all_reduce(tensor, op)
    _same(tensor, torch.full((9,), 2.0 * size), "PREMUL_SUM with a number")
    op = dist._make_nccl_premul_sum(torch.tensor([0.25]))
    target, source = torch.empty(3), torch.full((3 * size,), 4.0)
    dist.reduce_scatter_tensor(target, source, op)
    _same(target, torch.full((3,), 1.0 * size), "PREMUL_SUM with a tensor")


def check_bool(rank: int, size: int) -> None:
    for op, expected in (
        (ReduceOp.SUM, True),
        (ReduceOp.MAX, True),
        (ReduceOp.MIN, False),
        (ReduceOp.PRODUCT, False),
    ):
        tensor = torch.tensor([rank == 0, False, True])
        dist.all_reduce(tensor, op)
        assert tensor.tolist() == [expected, False, True], (op, tensor)
        assert tensor.view(torch.uint8).max() <= 1


def check_movements(rank: int, size: int) -> None:
    for dtype in FLOATS + INTEGERS + MOVED:
        for count in SIZES:
            mine, rows = numbers(rank, count, dtype), everybody(size, count, dtype)
            for root in {0, size - 1}:
                tensor = mine.clone()
                dist.broadcast(tensor, root)
                _same(tensor, rows[root], f"broadcast {dtype} {count}")
                if not mine.is_complex():
                    _check_rooted(rank, size, root, mine, rows)
            whole = torch.empty((size, count), dtype=dtype)
            dist.all_gather_into_tensor(whole, mine)
            _same(whole, rows, f"all_gather_into_tensor {dtype} {count}")
            parts = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(parts, mine)
            _same(torch.stack(parts), rows, f"all_gather {dtype} {count}")
            whole.view(torch.uint8).zero_()
            dist.all_gather(list(whole.unbind()), mine)
            _same(whole, rows, f"all_gather into rows {dtype} {count}")
            parts = [torch.empty_like(mine) for _ in range(size)]
            dist.all_to_all(parts, [mine.clone() for _ in range(size)])
            _same(torch.stack(parts), rows, f"all_to_all {dtype} {count}")


def _check_rooted(rank: int, size: int, root: int, mine: Tensor, rows: Tensor) -> None:
    parts = [torch.empty_like(mine) for _ in range(size)] if rank == root else None
    dist.gather(mine, parts, root)
    if parts is not None:
        _same(torch.stack(parts), rows, "gather")
    target = torch.empty_like(mine)
    dist.scatter(target, list(rows.unbind()) if rank == root else None, root)
    _same(target, rows[rank], "scatter")


def check_uneven(rank: int, size: int) -> None:
    mine = torch.arange(rank + 1) + 10 * rank
    parts = [torch.empty(other + 1, dtype=torch.int64) for other in range(size)]
    dist.all_gather(parts, mine)
    assert [part.tolist() for part in parts] == [[10 * r + i for i in range(r + 1)] for r in range(size)]
    # Rank r sends r + 1 rows to everybody, and none to rank 0.
    sends = [0 if other == 0 else rank + 1 for other in range(size)]
    recvs = [0 if rank == 0 else other + 1 for other in range(size)]
    source = torch.full((sum(sends), 3), float(rank))
    target = torch.full((sum(recvs), 3), -1.0)
    dist.all_to_all_single(target, source, recvs, sends)
    assert target[:, 0].tolist() == [float(other) for other in range(size) for _ in range(recvs[other])]
    target = torch.empty(size * 2)
    dist.all_to_all_single(target, torch.arange(size * 2.0) + 100 * rank)
    assert target.tolist() == [100.0 * other + 2 * rank + i for other in range(size) for i in range(2)]


def check_layouts(rank: int, size: int) -> None:
    grid = torch.zeros(6, 8)
    view = grid.t()[::2]
    view.fill_(rank + 1.0)
    for asynchronous in (False, True):
        work = dist.all_reduce(view, async_op=asynchronous)
        if work is not None:
            work.wait()
        total = size * (size + 1) / 2 * (size if asynchronous else 1)
        assert view.eq(total).all() and grid[:, 1::2].eq(0).all()
    dist.broadcast(view, 0)
    part = torch.full((3, 2), float(rank)).t()
    whole = torch.zeros(size * 2, 6)[:, ::2]
    dist.all_gather_into_tensor(whole, part)
    assert whole.reshape(size, 6).eq(torch.arange(size)[:, None]).all()
    target = torch.zeros(4, 2).t()
    dist.reduce_scatter_tensor(target, torch.ones(size * 2, 4))
    assert target.eq(size).all()
    unaligned = torch.zeros(17, dtype=torch.uint8)[1:].view(torch.uint8)
    unaligned += 1
    dist.all_reduce(unaligned)
    assert unaligned.eq(size).all()
    conjugate = torch.full((3,), 1 + 2j).conj()
    dist.group.WORLD.allreduce([conjugate]).wait()  # type: ignore[union-attr]
    assert conjugate.eq(size * (1 - 2j)).all()


def check_negated(rank: int, size: int) -> None:
    """A number that is the negative of what its memory holds, contiguous as all single ones are."""

    def negated(shape: list[int]) -> Tensor:
        tensor = torch.full(shape, -1j, dtype=torch.complex64).conj().imag
        assert tensor.is_neg() and tensor.is_contiguous() and tensor.eq(1).all()
        return tensor

    one = negated([]) if rank == 0 else torch.ones([])
    dist.all_reduce(one)
    assert one.item() == size
    received = negated([1])
    dist.broadcast(received if rank == 0 else received.mul_(7), 0)
    assert received.item() == 1
    whole = torch.zeros(size)
    dist.all_gather_into_tensor(whole, negated([1]))
    assert whole.eq(1).all()
    part = negated([1])
    dist.reduce_scatter_tensor(part, torch.full((size,), 2.0))
    assert part.item() == 2 * size


def check_complex(rank: int, size: int) -> None:
    for dtype in (torch.complex64, torch.complex128):
        tensor = torch.full((5,), 1 + rank * 1j, dtype=dtype)
        dist.all_reduce(tensor)
        assert tensor.eq(size + sum(range(size)) * 1j).all()
        tensor = torch.full((5,), size * 1j, dtype=dtype)
        dist.all_reduce(tensor, ReduceOp.AVG)
        assert tensor.eq(size * 1j).all()
    # Of integers it is what their sum wraps round to, divided towards zero, as on the other faces.
    for value in (100, -3, 127):
        tensor = torch.full((5,), value, dtype=torch.int8)
        dist.all_reduce(tensor, ReduceOp.AVG)
        total = torch.full((5,), value, dtype=torch.int8) * size
        assert tensor.equal(total.div(size, rounding_mode="trunc"))


def check_coalesced(rank: int, size: int) -> None:
    group = dist.group.WORLD
    for asynchronous in (False, True):
        tensors = [torch.full((count,), rank + 1.0) for count in (1, 3, 100)]
        outputs = [torch.empty(size * 2), torch.empty(size * 5)]
        inputs = [torch.full((2,), float(rank)), torch.full((5,), float(rank))]
        scattered = [torch.empty(2), torch.empty(3)]
        with dist.distributed_c10d._coalescing_manager(group, async_ops=asynchronous) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        _finish(manager, asynchronous)
        assert all(tensor.eq(size * (size + 1) / 2).all() for tensor in tensors)
        with dist.distributed_c10d._coalescing_manager(group, async_ops=asynchronous) as manager:
            for output, input in zip(outputs, inputs, strict=True):
                dist.all_gather_into_tensor(output, input)
        _finish(manager, asynchronous)
        assert outputs[1].view(size, 5).eq(torch.arange(size)[:, None]).all()
        with dist.distributed_c10d._coalescing_manager(group, async_ops=asynchronous) as manager:
            for output in scattered:
                dist.reduce_scatter_tensor(output, torch.ones(size * output.numel()))
        _finish(manager, asynchronous)
        assert all(output.eq(size).all() for output in scattered)


def check_window(rank: int, size: int) -> None:
    group = dist.group.WORLD
    tensors = [torch.ones(4), torch.ones(5)]
    sent, received = torch.full((2,), float(rank)), torch.empty(2)
    with dist.distributed_c10d._coalescing_manager(group, torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(tensors[0], 0)
        dist.irecv(received, (rank - 1) % size)
        dist.isend(sent, (rank + 1) % size)
    manager.wait()
    assert received.eq((rank - 1) % size).all()


def check_sparse(rank: int, size: int) -> None:
    values = torch.tensor([1.0, 2.0])
    tensor = torch.sparse_coo_tensor(torch.tensor([[rank, size]]), values, (size + 1,), check_invariants=True)
    dist.all_reduce(tensor)
    assert tensor.to_dense().tolist() == [1.0] * size + [2.0 * size]
    rows = torch.sparse_coo_tensor(
        torch.tensor([[rank]]), torch.ones(1, 3), (size, 3), dtype=torch.float64, check_invariants=True
    )
    dist.all_reduce(rows)
    assert rows.to_dense().eq(1).all()


def check_objects(rank: int, size: int) -> None:
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    assert [item["rank"] for item in gathered] == list(range(size))
    shared: list[Any] = [{"from": 0}] if rank == 0 else [None]
    dist.broadcast_object_list(shared, 0)
    assert shared == [{"from": 0}]
    collected: list[Any] | None = [None] * size if rank == 0 else None
    dist.gather_object(rank, collected, 0)
    assert collected is None or collected == list(range(size))
    mine: list[Any] = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert mine == [f"for {rank}"]


def check_direct_calls(rank: int, size: int) -> None:
    """Process groups are also called without options objects."""
    group: Any = dist.group.WORLD
    tensor = torch.ones(3)
    group.allreduce(tensor).wait()
    group.allreduce([tensor], ReduceOp.MAX).wait()
    group.broadcast(tensor, 0).wait()
    parts = [torch.empty(3) for _ in range(size)]
    group.allgather(parts, tensor).wait()
    assert torch.stack(parts).eq(size).all()
    group.reduce(tensor, 0).wait()
    group.gather(parts if rank == 0 else [], tensor, 0).wait()
    group.scatter(tensor, parts if rank == 0 else [], 0).wait()
    group.barrier().wait()


def check_blocking_direct_calls(rank: int, size: int) -> None:
    """A tensor may stand for a list of one also where the options ask for blocking."""
    options = dist.AllreduceOptions()
    options.asyncOp = False  # type: ignore[attr-defined]
    group: Any = dist.group.WORLD
    tensor = torch.ones(3)
    group.allreduce(tensor, options)
    assert tensor.eq(size).all()


def check_plain_tensors_go_straight_to_the_engine(rank: int, size: int) -> None:
    """With each version of torch: how it shows tensors to the engine is its own, and no test of results tells."""

    def refuse(*_: object) -> None:
        raise AssertionError("a plain tensor was taken for something else")

    group: Any = dist.group.WORLD
    group._start = refuse
    try:
        for dtype in FLOATS + INTEGERS:
            part, whole, other = (torch.ones(count, dtype=dtype) for count in (2, 2 * size, 2 * size))
            dist.all_reduce(part)
            dist.broadcast(part, 0)
            dist.reduce(part, 0)
            dist.all_gather_into_tensor(whole, part)
            dist.reduce_scatter_tensor(part, whole)
            dist.all_to_all_single(whole, other)
    finally:
        del group._start


def check_blocking_callbacks(rank: int, size: int) -> None:
    """What callbacks of futures call does not come between the group's own calls, whose order they don't know."""
    group: Any = dist.group.WORLD
    before = group._get_sequence_number_for_group()
    inner = torch.ones(2)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    assert work is not None
    chained = work.get_future().then(lambda _: dist.all_reduce(inner))
    chained.wait()
    assert inner.eq(size).all()
    assert group._get_sequence_number_for_group() == before + 1


def check_many_in_flight(rank: int, size: int) -> None:
    tensors = [torch.full((index % 50 + 1,), float(rank)) for index in range(200)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.barrier()
    for work in reversed(works):
        assert work is not None
        work.wait()
    assert all(tensor.eq(sum(range(size))).all() for tensor in tensors)
    # Nobody waits for these, and nobody holds them.
    for _ in range(100):
        dist.all_reduce(torch.ones(100), async_op=True)
    dist.barrier()
    chained = dist.all_reduce(torch.ones(1), async_op=True)
    assert chained is not None
    assert chained.get_future().then(lambda done: done.value()[0] * 2).wait().item() == 2 * size


def _finish(manager: Any, asynchronous: bool) -> None:
    if asynchronous:
        manager.wait()


def _same(actual: Tensor, expected: Tensor, what: str) -> None:
    raw = (actual.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))
    assert actual.shape == expected.shape and torch.equal(*raw), f"{what}: {actual} is not {expected}"


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("size", [2, 3])
def test_collective(ranks: Ranks, check: Callable[..., None], size: int) -> None:
    ranks(check, size)


@pytest.mark.parametrize("check", [check_all_reduce, check_movements, check_many_in_flight])
def test_four_ranks(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 4, deadline=250)


def test_one_rank(ranks: Ranks) -> None:
    ranks(check_all_reduce, 1)
    ranks(check_movements, 1)


def check_flushing(rank: int, size: int) -> None:
    """What a rank's program asks of its own threads changes no result: other threads may combine."""
    for count in (8, 1 << 18):
        for asynchronous in (False, True):
            tiny = torch.full((count,), 1e-39)
            torch.set_flush_denormal(rank == 0)
            try:
                work = dist.all_reduce(tiny, async_op=asynchronous)
                if work is not None:
                    work.wait()
            finally:
                torch.set_flush_denormal(False)
            assert torch.equal(tiny, size * torch.full((count,), 1e-39)), (count, asynchronous)


def test_small_floats_are_kept_whatever_a_thread_does_with_them(ranks: Ranks) -> None:
    ranks(check_flushing, 2)
