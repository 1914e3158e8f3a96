"""Each collective of Horovod's API against what it should give, for every dtype, shape and way of calling it."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from horovod_ranks import Ranks
from torch import Tensor

from paceline.horovod.exceptions import HorovodInternalError

REDUCIBLE = [
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]
MOVABLE = [*REDUCIBLE, torch.int16, torch.bool]
SHAPES: list[tuple[int, ...]] = [(), (5,), (3, 4), (2, 3, 4), (0,), (2, 0)]


def number(rank: int, shape: tuple[int, ...], dtype: torch.dtype, salt: int = 0) -> Tensor:
    """Small whole numbers, other ones on each rank."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count).reshape(shape) * 3 + 5 * rank + salt) % 7).to(dtype)


def expected(op: str, size: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    everyone = torch.stack([number(rank, shape, torch.int64) for rank in range(size)])
    if op == "Average":
        return everyone.sum(0).div(size, rounding_mode="trunc" if not dtype.is_floating_point else None).to(dtype)
    if op in ("Min", "Max"):
        return getattr(everyone, f"a{op.lower()}")(0).to(dtype)
    return (everyone.sum(0) if op == "Sum" else everyone.prod(0)).to(dtype)


def check_allreduce(rank: int, size: int, op: str) -> None:
    import paceline.horovod.torch as hvd

    chosen = getattr(hvd, op)
    for dtype, shape in itertools.product(REDUCIBLE, SHAPES):
        mine, right = number(rank, shape, dtype), expected(op, size, shape, dtype)
        kept = mine.clone()
        given = hvd.allreduce(mine, op=chosen)
        assert given.dtype == dtype and given.shape == mine.shape
        assert torch.allclose(given.double(), right.double(), rtol=0.01), (dtype, shape, given, right)
        assert torch.equal(mine, kept)
        again = hvd.synchronize(hvd.allreduce_async(mine, name="again", op=chosen))
        assert torch.equal(again, given) and torch.equal(mine, kept)
        assert hvd.allreduce_(mine, op=chosen) is mine and torch.equal(mine, given)
        there = kept.clone()
        hvd.synchronize(hvd.allreduce_async_(there, name="there", op=chosen))
        assert torch.equal(there, given)
    if op == "Average":  # of integers it is what their sum wraps round to, divided towards zero
        mine = torch.full((5,), 100, dtype=torch.int8)
        assert torch.equal(hvd.allreduce(mine, op=chosen), (mine * size).div(size, rounding_mode="trunc"))


@pytest.mark.parametrize("op", ["Average", "Sum", "Min", "Max", "Product"])
@pytest.mark.parametrize("size", [2, 3])
def test_allreduce(ranks: Ranks, size: int, op: str) -> None:
    ranks(check_allreduce, size, op=op)


def check_grouped_allreduce(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    shapes = [(5,), (3, 4), (0,), (2, 3, 4)]
    tensors = [number(rank, shape, torch.float32) for shape in shapes]
    right = [expected("Sum", size, shape, torch.float32) for shape in shapes]
    for given in (
        hvd.grouped_allreduce(tensors, op=hvd.Sum),
        hvd.synchronize(hvd.grouped_allreduce_async(tensors, name="group", op=hvd.Sum)),
        [given.float() for given in hvd.grouped_allreduce(tensors, op=hvd.Sum, compression=hvd.Compression.fp16)],
        hvd.grouped_allreduce_([tensor.clone() for tensor in tensors], op=hvd.Sum),
    ):
        assert all(map(torch.equal, given, right))
    handle = hvd.grouped_allreduce_async_(tensors, op=hvd.Sum)
    given = hvd.synchronize(handle)
    assert all(a is b and torch.equal(a, c) for a, b, c in zip(given, tensors, right, strict=True))
    assert hvd.synchronize(handle) is None
    with pytest.raises(ValueError, match="was not created or has been cleared"):
        hvd.poll(handle)


@pytest.mark.parametrize("size", [2, 3])
def test_grouped_allreduce(ranks: Ranks, size: int) -> None:
    ranks(check_grouped_allreduce, size)


def check_factors(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for dtype in (torch.float16, torch.float32, torch.float64):
        mine = number(rank, (4, 3), dtype)
        total = expected("Sum", size, (4, 3), dtype)
        assert torch.equal(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5), total * 0.5)
        assert torch.equal(hvd.allreduce(mine, op=hvd.Sum, postscale_factor=4.0), total * 4.0)
        both = hvd.allreduce(mine, prescale_factor=0.25, postscale_factor=4.0)
        assert torch.allclose(both, total / size, rtol=1e-3)
    for dtype in (torch.int32, torch.int64):
        mine = number(rank, (4, 3), dtype)
        each = torch.stack([(number(other, (4, 3), dtype) * 0.4).to(dtype) for other in range(size)])
        assert torch.equal(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.4), each.sum(0))
        total = expected("Sum", size, (4, 3), dtype)
        assert torch.equal(hvd.allreduce(mine, op=hvd.Sum, postscale_factor=0.4), (total.double() * 0.4).to(dtype))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = hvd.allreduce(number(rank, (4,), torch.float32), average=False)
        assert torch.equal(given, expected("Sum", size, (4,), torch.float32))
    assert [warning.category for warning in caught] == [DeprecationWarning]
    with pytest.raises(ValueError, match="supersedes average"):
        hvd.allreduce(mine, average=True, op=hvd.Sum)
    with pytest.raises(ValueError, match=r"op=17 should be one of hvd\.Average"):
        hvd.allreduce(mine, op=17)


def test_scale_factors_and_the_older_argument(ranks: Ranks) -> None:
    ranks(check_factors, 3)


def check_layouts(rank: int, size: int) -> None:
    """Memory that is not in a row is as good as any other."""
    import paceline.horovod.torch as hvd

    whole = number(rank, (4, 6), torch.float32)
    total = expected("Sum", size, (4, 6), torch.float32)
    for cut in (Tensor.t, lambda tensor: tensor[:, ::2], lambda tensor: tensor[1]):
        assert torch.equal(hvd.allreduce(cut(whole), op=hvd.Sum), cut(total))
        assert torch.equal(hvd.broadcast(cut(whole), 1), cut(number(1, (4, 6), torch.float32)))
        everyone = [cut(number(other, (4, 6), torch.float32)) for other in range(size)]
        assert torch.equal(hvd.allgather(cut(whole)), torch.cat(everyone))
    hvd.allreduce_(whole[:, ::2], op=hvd.Sum)
    assert torch.equal(whole[:, ::2], total[:, ::2])
    assert torch.equal(whole[:, 1::2], number(rank, (4, 6), torch.float32)[:, 1::2])


def test_layouts(ranks: Ranks) -> None:
    ranks(check_layouts)


def check_allgather(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for dtype, rest in itertools.product(MOVABLE, [(), (4,), (2, 3), (0,), (2, 0)]):

        def part(other: int, dtype: torch.dtype = dtype, rest: tuple[int, ...] = rest) -> Tensor:
            return number(other, ((other * 2) % 3 + (other > 0), *rest), dtype)

        right = torch.cat([part(other) for other in range(size)])
        given = hvd.allgather(part(rank))
        assert given.dtype == dtype and torch.equal(given, right)
        same = hvd.synchronize(hvd.allgather_async(number(rank, (2, *rest), dtype), name="same"))
        assert torch.equal(same, torch.cat([number(other, (2, *rest), dtype) for other in range(size)]))
    many = hvd.grouped_allgather([number(rank, (rank + 1, 2), torch.float32), number(rank, (3,), torch.int64)])
    assert torch.equal(many[0], torch.cat([number(other, (other + 1, 2), torch.float32) for other in range(size)]))
    assert torch.equal(many[1], torch.cat([number(other, (3,), torch.int64) for other in range(size)]))
    with pytest.raises(ValueError, match="not a scalar"):
        hvd.allgather(torch.tensor(1.0))


@pytest.mark.parametrize("machines", ["00", "010"])
def test_allgather(ranks: Ranks, machines: str) -> None:
    ranks(check_allgather, len(machines), machines=machines)


def check_broadcast(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for dtype, shape, root in itertools.product(MOVABLE, SHAPES, range(size)):
        mine, right = number(rank, shape, dtype), number(root, shape, dtype)
        kept = mine.clone()
        assert torch.equal(hvd.broadcast(mine, root), right) and torch.equal(mine, kept)
        assert torch.equal(hvd.synchronize(hvd.broadcast_async(mine, root, name="b")), right)
        assert hvd.broadcast_(mine, root) is mine and torch.equal(mine, right)
        hvd.synchronize(hvd.broadcast_async_(kept, root))
        assert torch.equal(kept, right)
    with pytest.raises(ValueError, match=rf"root rank {size} is not one of the ranks"):
        hvd.broadcast(torch.ones(2), size)


@pytest.mark.parametrize("size", [2, 3])
def test_broadcast(ranks: Ranks, size: int) -> None:
    ranks(check_broadcast, size)


def check_alltoall(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for dtype, rest in itertools.product(MOVABLE, [(), (3,), (2, 2), (0,)]):
        splits = [(rank + other) % 3 for other in range(size)]
        mine = torch.cat([torch.full((count, *rest), other, dtype=dtype) for other, count in enumerate(splits)])
        right = torch.cat([torch.full(((other + rank) % 3, *rest), rank, dtype=dtype) for other in range(size)])
        for given in (splits, torch.tensor(splits, dtype=torch.int32), torch.tensor(splits)):
            received, counts = hvd.alltoall(mine, given)
            assert torch.equal(received, right) and received.dtype == dtype
            assert counts.tolist() == [(other + rank) % 3 for other in range(size)]
            assert counts.dtype == (given.dtype if isinstance(given, Tensor) else torch.int32)
        equal = hvd.alltoall(
            torch.arange(2 * size).to(dtype) if dtype != torch.bool else torch.ones(2 * size, dtype=dtype)
        )
        assert equal.shape == (2 * size,)
        if dtype != torch.bool:
            assert equal.tolist() == [2 * rank, 2 * rank + 1] * size
    spare, _ = hvd.alltoall(torch.arange(size + 2.0), [1] * size)
    assert spare.tolist() == [float(rank)] * size
    output, counts = hvd.synchronize(hvd.alltoall_async(torch.ones(size, 2), name="async"))
    assert output.shape == (size, 2) and counts.tolist() == [1] * size
    for wrong, words in (
        ((torch.ones(size + 1),), "cannot share"),
        ((torch.ones(size - 1), torch.ones(size, dtype=torch.int32)), "add up to at most"),
        ((torch.ones(size), torch.ones(size)), "one row of integers"),
        ((torch.ones(size), [1] * (size + 1)), f"expects {size} splits"),
        ((torch.ones(size), [-1] * size), "none negative"),
    ):
        with pytest.raises(ValueError, match=words):
            hvd.alltoall(*wrong)


@pytest.mark.parametrize("size", [2, 3])
def test_alltoall(ranks: Ranks, size: int) -> None:
    ranks(check_alltoall, size)


def check_reducescatter(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for dtype, rows, rest in itertools.product(REDUCIBLE, [size * 2, size + 1, 1, 0], [(), (3,), (0,)]):
        shape = (rows, *rest)
        share, left = divmod(rows, size)
        start = rank * share + min(rank, left)
        mine = slice(start, start + share + (rank < left))
        tensor = number(rank, shape, dtype)
        for op in ("Sum", "Average"):
            right = expected(op, size, shape, dtype)[mine]
            given = hvd.reducescatter(tensor, op=getattr(hvd, op))
            assert given.shape == right.shape and torch.allclose(given.double(), right.double(), rtol=0.01)
    tensor, total = number(rank, (size, 2), torch.float32), expected("Sum", size, (size, 2), torch.float32)
    assert torch.equal(hvd.reducescatter(tensor, op=hvd.Sum, prescale_factor=0.5), total[rank : rank + 1] * 0.5)
    assert torch.equal(hvd.reducescatter(tensor, op=hvd.Sum, postscale_factor=2.0), total[rank : rank + 1] * 2)
    several = hvd.grouped_reducescatter([tensor, tensor * 2], op=hvd.Sum, name="several")
    assert torch.equal(several[0], total[rank : rank + 1]) and torch.equal(several[1], total[rank : rank + 1] * 2)
    one = hvd.synchronize(hvd.reducescatter_async(tensor, name="one", op=hvd.Sum))
    assert torch.equal(one, total[rank : rank + 1])
    with pytest.raises(hvd.HorovodInternalError, match="only supports AVERAGE and SUM"):
        hvd.reducescatter(tensor, op=hvd.Adasum)
    with pytest.raises(ValueError, match="not a scalar"):
        hvd.reducescatter(torch.tensor(1.0))


@pytest.mark.parametrize("size", [2, 3])
def test_reducescatter(ranks: Ranks, size: int) -> None:
    ranks(check_reducescatter, size)


def check_gradients(rank: int, size: int) -> None:
    """What Horovod hands back through each collective."""
    import paceline.horovod.torch as hvd

    def gradient(call: Any, shape: tuple[int, ...], into: Any) -> Tensor:
        leaf = number(rank, shape, torch.float64).requires_grad_()
        results = call(leaf)
        results = results if isinstance(results, list) else [results]
        torch.autograd.backward(results, [into(result) for result in results])
        assert leaf.grad is not None
        return leaf.grad

    shape = (2 * size, 3)
    total, mean = size * (size + 1) / 2, (size + 1) / 2

    def own(result: Tensor) -> Tensor:
        return torch.full_like(result, rank + 1.0)

    for call, right in (
        (lambda t: hvd.allreduce(t, op=hvd.Sum), total),
        (lambda t: hvd.allreduce(t), mean),
        (lambda t: hvd.allreduce(t, op=hvd.Sum, prescale_factor=2.0), 2 * total),
        (lambda t: hvd.grouped_allreduce([t, t], op=hvd.Sum), 2 * total),
        (lambda t: hvd.allgather(t), mean),
        (lambda t: hvd.grouped_allgather([t, t]), 2 * mean),
        (lambda t: hvd.broadcast(t, 1), mean if rank == 1 else 0.0),
    ):
        given = gradient(call, shape, own)
        assert torch.allclose(given, torch.full(shape, right, dtype=torch.float64)), (given, right)

    everyone = torch.cat([torch.full((2, 3), other + 1.0, dtype=torch.float64) for other in range(size)])
    assert torch.equal(gradient(lambda t: hvd.alltoall(t), shape, own), everyone)
    splits = [2] * size
    assert torch.equal(gradient(lambda t: hvd.alltoall(t, splits)[0], shape, own), everyone)
    assert torch.equal(gradient(lambda t: hvd.reducescatter(t), shape, own), everyone)
    assert torch.equal(gradient(lambda t: hvd.reducescatter(t, op=hvd.Sum), shape, own), everyone * size)
    twice = gradient(lambda t: hvd.grouped_reducescatter([t, t], op=hvd.Sum), shape, own)
    assert torch.equal(twice, everyone * size * 2)
    ragged = gradient(
        hvd.allgather, (rank + 1, 2), lambda all_rows: torch.arange(len(all_rows)).double()[:, None].expand_as(all_rows)
    )
    start = rank * (rank + 1) // 2
    assert ragged[:, 0].tolist() == list(range(start, start + rank + 1))


@pytest.mark.parametrize("size", [2, 3])
def test_gradients(ranks: Ranks, size: int) -> None:
    ranks(check_gradients, size)


def check_sparse(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    def sparse(other: int) -> Tensor:
        dense = number(other, (7, 3), torch.float32)
        return (dense * (dense > 4)).to_sparse(1)

    right = sum(sparse(other).to_dense() for other in range(size))
    for op, share in ((hvd.Sum, 1), (hvd.Average, size)):
        given = hvd.sparse_allreduce_async(sparse(rank), name="s", op=op)()
        assert given.is_sparse and torch.allclose(given.to_dense(), right / share)
    empty = torch.sparse_coo_tensor(size=(4, 2))
    assert hvd.sparse_allreduce_async(empty, name="none", op=hvd.Sum)().to_dense().tolist() == [[0.0, 0.0]] * 4
    with pytest.raises(ValueError, match="sparse_allreduce_async takes them"):
        hvd.allreduce(sparse(rank))
    with pytest.raises(ValueError, match=r"op=hvd\.Sum or hvd\.Average"):
        hvd.sparse_allreduce_async(sparse(rank), name="s", op=hvd.Max)


def test_sparse_allreduce(ranks: Ranks) -> None:
    ranks(check_sparse, 3)


def check_compression(rank: int, size: int, name: str, sent_as: torch.dtype, tolerance: float) -> None:
    import paceline.horovod.torch as hvd

    compression = getattr(hvd.Compression, name)
    mine, right = number(rank, (5,), torch.float64), expected("Average", size, (5,), torch.float64)
    given = hvd.allreduce(mine, compression=compression)
    assert given.dtype == torch.float64 and torch.allclose(given, right, rtol=tolerance)
    whole = torch.tensor([3, 70000])
    assert torch.equal(hvd.allreduce(whole, compression=compression), whole)
    large = hvd.allreduce(torch.tensor([70000.0]), compression=compression)
    assert large.item() == torch.tensor(70000.0).to(sent_as).item()  # infinite as float16, 70144 as bfloat16
    for dtype in (torch.float32, torch.float64, torch.int8, torch.int64):
        sent, context = compression.compress(torch.ones(3, dtype=dtype))
        assert sent.dtype == (sent_as if dtype.is_floating_point else dtype)
        assert compression.decompress(sent, context).dtype == dtype


@pytest.mark.parametrize(
    ("name", "sent_as", "tolerance"), [("fp16", torch.float16, 1e-3), ("bf16", torch.bfloat16, 8e-3)]
)
def test_compression(ranks: Ranks, name: str, sent_as: torch.dtype, tolerance: float) -> None:
    ranks(check_compression, name=name, sent_as=sent_as, tolerance=tolerance)


def check_mistake_is_told(rank: int, size: int) -> None:
    """Rank 0, which waits, hears what rank 1 did wrong; the job goes on, also with the same names."""
    import paceline.horovod.torch as hvd

    rows, few = torch.ones(4, 2), torch.ones(4, dtype=torch.int16)
    calls: dict[str, tuple[Any, Any, Any]] = {
        "a": (hvd.alltoall, (rows, torch.tensor([2, 2])), (rows, torch.tensor([4, 4]))),
        "b": (hvd.allgather, (rows,), (torch.tensor(1.0),)),
        "c": (hvd.allreduce, (rows,), (few,)),
        "d": (hvd.broadcast, (rows, 0), (rows, size)),
        "e": (hvd.reducescatter, (rows,), (few,)),
        "f": (hvd.grouped_allreduce, ([rows, rows],), ([rows, few],)),
    }
    for name, (call, right, mistaken) in calls.items():
        for given in (None, name):
            if rank == 1:
                with pytest.raises(ValueError) as mistake:  # noqa: PT011  # each says something else
                    call(*mistaken, name=given)
                words = str(mistake.value)
            else:
                with pytest.raises(HorovodInternalError) as told:
                    call(*right, name=given)
                words = str(told.value)
            said = hvd.allgather_object(words, name="words")
            assert f"rank 1 gave nothing: it raised ValueError: {said[1]}" in said[0]
            with pytest.raises(ValueError):  # noqa: PT011
                call(*mistaken, name=given)
            call(*right, name=given)


@pytest.mark.parametrize("policy", ["board", "cycle", "graph"])
def test_a_mistake_on_one_rank_is_told_to_the_others(ranks: Ranks, policy: str) -> None:
    environment = {"PACELINE_TIMEOUT": "1000", "PACELINE_POLICY": policy}
    ranks(check_mistake_is_told, 2, environment=environment, deadline=100)


def check_wrong_dtype(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    with pytest.raises(ValueError, match=r"Tensor type torch\.ShortTensor is not supported; a reduction takes float16"):
        hvd.allreduce(torch.ones(2, dtype=torch.int16))
    with pytest.raises(ValueError, match="floating-point"):
        hvd.allreduce(torch.ones(2, dtype=torch.int32), op=hvd.Adasum)
    for call in (
        hvd.grouped_allreduce,
        hvd.grouped_allreduce_,
        hvd.grouped_allreduce_async,
        hvd.grouped_allgather,
        hvd.grouped_reducescatter,
    ):
        with pytest.raises(
            ValueError, match=r"^a grouped (allreduce|allgather|reducescatter) needs at least one tensor$"
        ):
            call([])


def test_what_cannot_be_combined(ranks: Ranks) -> None:
    ranks(check_wrong_dtype)
