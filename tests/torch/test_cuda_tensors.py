"""CUDA tensors that the engine serves, on the stand-in for a device."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cuda_stand_in import CUDA, Device, DeviceTensor
from torch import Tensor
from torch_ranks import Ranks

from paceline.calibration.torch import CONTEST_SIZES
from paceline.torch.contest import Verdict
from paceline.torch.work import CompletedWork

ENGINE, AUTO = {"PACELINE_CUDA": "engine"}, {"PACELINE_CUDA": "auto"}


def reduced(rank: int, size: int) -> list[str]:
    from torch.distributed.distributed_c10d import _get_default_group

    device = Device()
    group: Any = _get_default_group()
    paths = []
    for count in (3, 10_000, 300_000):
        for dtype in (torch.float32, torch.float64, torch.int32):
            values = (torch.arange(count) % 100 + rank).to(dtype)
            others = [(torch.arange(count) % 100 + other).to(dtype) for other in range(size)]
            expected = torch.stack(others).sum(0, dtype=dtype)
            tensor = device.tensor(values)
            assert dist.all_reduce(tensor) is None
            assert torch.equal(device.host(tensor), expected)
            paths.append(group._device.last[0])
            work = dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True)
            assert work is not None
            assert work.wait()
            assert torch.equal(device.host(tensor), expected)
            work.wait(timedelta(seconds=60))  # the host hears of the end a little after the device
            assert work.is_completed() and work.is_success() and work.exception() is None
            assert dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True).get_future().wait()[0] is tensor
            assert torch.equal(device.host(tensor), expected)
    return paths


@pytest.mark.parametrize("size", [2, 3])
def test_all_reduce(ranks: Ranks, size: int) -> None:
    for paths in ranks(reduced, size, environment=ENGINE, fresh=True):
        assert set(paths) == {"host", "one_shot", "two_shot"}


def moved(rank: int, size: int, count: int) -> set[str]:
    """Collectives of tensors that have `count` elements for each rank. Returns the paths that they went."""
    from torch.distributed.distributed_c10d import _get_default_group

    device = Device()
    group: Any = _get_default_group()
    everyone = [torch.arange(size * count, dtype=torch.float32) % 100 + 10 * other for other in range(size)]
    mine = everyone[rank]
    heads = [one[:count] for one in everyone]
    part = slice(rank * count, (rank + 1) * count)
    paths = []

    def there(result: Tensor, expected: Tensor) -> None:
        assert torch.equal(device.host(result), expected)
        paths.append(group._device.last[0])

    tensor = device.tensor(mine)
    dist.broadcast(tensor, 1)
    there(tensor, everyone[1])

    tensor = device.tensor(mine)
    dist.reduce(tensor, 1, dist.ReduceOp.MAX)
    there(tensor, everyone[-1] if rank == 1 else mine)

    output = device.tensor(torch.zeros(size * count))
    work = dist.all_gather_into_tensor(output, device.tensor(heads[rank]), async_op=True)
    assert work is not None and work.wait()
    assert work.get_future().wait()[0] is output
    there(output, torch.cat(heads))

    parts = [device.tensor(torch.zeros(count)) for _ in range(size)]
    dist.all_gather(parts, device.tensor(heads[rank]))
    for gathered, expected in zip(parts, heads, strict=True):
        there(gathered, expected)

    output = device.tensor(torch.zeros(count))
    dist.reduce_scatter_tensor(output, device.tensor(mine), dist.ReduceOp.AVG)
    there(output, (torch.stack(everyone).sum(0) / size)[part])
    pieces = [piece.as_subclass(DeviceTensor) for piece in device.tensor(mine).as_subclass(Tensor).chunk(size)]
    dist.reduce_scatter(output, pieces)
    there(output, torch.stack(everyone).sum(0)[part])

    output = device.tensor(torch.zeros(size * count))
    dist.all_to_all_single(output, device.tensor(mine))
    there(output, torch.cat([one[part] for one in everyone]))
    # Ranks before the last one send what they have to the last one, which sends nothing.
    last = size - 1
    sent = [0] * last + [count if rank < last else 0]
    received = [count if rank == last and other < last else 0 for other in range(size)]
    output = device.tensor(torch.zeros(sum(received)))
    dist.all_to_all_single(output, device.tensor(mine[: sum(sent)]), received, sent)
    there(output, torch.cat(heads[:last]) if rank == last else torch.zeros(0))
    results = [device.tensor(torch.zeros(count)) for _ in range(size)]
    dist.all_to_all(results, [device.tensor(piece) for piece in mine.chunk(size)])
    for result, one in zip(results, everyone, strict=True):
        there(result, one[part])

    output = device.tensor(torch.zeros(count))
    dist.scatter(output, [device.tensor(piece) for piece in mine.chunk(size)] if rank == 0 else None, 0)
    there(output, everyone[0][part])
    dist.gather(output, parts if rank == 1 else None, 1)
    if rank == 1:
        there(torch.cat([device.host(one) for one in parts]), everyone[0])

    strange = device.tensor(mine.to(torch.int16))  # moves as bytes
    dist.broadcast(strange, 1)
    there(strange, everyone[1].to(torch.int16))
    return set(paths)


@pytest.mark.parametrize(("count", "paths"), [(6, {"host", "direct"}), (2000, {"one_shot", "direct"})])
def test_all_collectives_stay_on_the_device(ranks: Ranks, count: int, paths: set[str]) -> None:
    for seen in ranks(moved, 2 if count < 100 else 3, count=count, environment=ENGINE, fresh=True):
        assert seen == paths


def test_large_tensors_are_taken_from_where_they_lie(ranks: Ranks) -> None:
    for seen in ranks(moved, 2, count=140_000, environment=ENGINE, fresh=True):
        assert seen == {"direct"}


def through_the_host(rank: int, size: int) -> None:
    device = Device()
    mine, other = device.tensor(torch.full((6,), float(rank))), device.tensor(torch.zeros(6))
    exchange = [dist.P2POp(dist.isend, mine, (rank + 1) % size), dist.P2POp(dist.irecv, other, (rank - 1) % size)]
    for work in dist.batch_isend_irecv(exchange):
        work.wait()
    assert torch.equal(device.host(other), torch.full((6,), float((rank - 1) % size)))

    columns = device.tensor(torch.zeros(4, 6)).T  # not contiguous
    columns.as_subclass(Tensor).fill_(rank)
    dist.broadcast(columns, 1)
    assert torch.equal(device.host(columns), torch.ones(6, 4))
    dist.barrier(device_ids=[0])


def test_messages_and_strided_tensors_go_through_the_host(ranks: Ranks) -> None:
    ranks(through_the_host, 2, environment=ENGINE, fresh=True)


def disagreeing(rank: int, size: int) -> str:
    from paceline.errors import Mismatch

    work = dist.all_reduce(Device().tensor(torch.zeros(10_000 + rank)), async_op=True)
    assert work is not None
    try:
        work.wait(timedelta(seconds=60))
    except Mismatch as error:
        return str(error)
    return ""


def test_ranks_that_disagree_are_named(ranks: Ranks) -> None:
    for said in ranks(disagreeing, 2, environment=ENGINE, fresh=True):
        assert "rank 1" in said and "float32[10001] SUM" in said


class Other:
    """What stands for NCCL's group: it sums on the host, and keeps what it was asked for."""

    def __init__(self, device: Device) -> None:
        self.calls: list[tuple[str, int]] = []
        self._device = device
        self._gloo = dist.new_group(backend="gloo")

    def allreduce(self, tensors: list[Tensor], opts: object = None) -> Any:
        (tensor,) = tensors
        values = self._device.host(tensor)
        dist.all_reduce(values, group=self._gloo)
        tensor.as_subclass(Tensor).copy_(values)
        self.calls.append(("allreduce", values.nbytes))
        return CompletedWork([tensor])

    def alltoall_base(self, output: Tensor, input: Tensor, *_: object) -> Any:
        self.calls.append(("alltoall_base", input.nbytes))
        return CompletedWork([output])

    def send(self, tensors: list[Tensor], peer: int, tag: int) -> Any:
        self.calls.append(("send", tensors[0].nbytes))
        return CompletedWork(tensors)

    def shutdown(self) -> None:
        """There is nothing to do."""


def beside(device: Device) -> Other:
    """Let torch have NCCL, with this in its place."""
    from torch.distributed.distributed_c10d import _get_default_group

    from paceline.torch import accelerator

    seam: Any = accelerator
    seam.dist.is_nccl_available = lambda: True
    group: Any = _get_default_group()
    group._inner = Other(device)
    other: Other = group._inner
    return other


def summed(device: Device, rank: int, size: int, count: int) -> None:
    tensor = device.tensor(torch.arange(count, dtype=torch.float32) % 100 + rank)
    dist.all_reduce(tensor)
    expected = size * (torch.arange(count, dtype=torch.float32) % 100) + size * (size - 1) // 2
    assert torch.equal(device.host(tensor), expected)


def timed(rank: int, size: int) -> tuple[object, set[tuple[str, int]]]:
    from torch.distributed.distributed_c10d import _get_default_group

    device = Device()
    device.differs(rank + 1)
    other = beside(device)
    summed(device, rank, size, 3)
    other.calls.clear()
    for nbytes in CONTEST_SIZES[:3]:
        summed(device, rank, size, nbytes // 4)
    group: Any = _get_default_group()
    return group._verdict, {*other.calls}


def test_the_faster_one_serves_a_size(ranks: Ranks) -> None:
    """Times say nothing here: whatever comes out is the same on all ranks, and sums are right."""
    (verdict, calls), *others = ranks(timed, 2, environment=AUTO, fresh=True)
    assert all(one == (verdict, calls) for one in others)
    assert calls == {("allreduce", size) for size in CONTEST_SIZES[:3] if not verdict.for_challenger(size)}


def divided(rank: int, size: int, wins: tuple[bool, ...]) -> list[tuple[str, int]]:
    from paceline.torch import accelerator, cuda

    seam: Any = accelerator
    seam.contest = lambda *_: Verdict(wins, "so says the test")
    device = Device()
    device.differs(rank + 1)
    other = beside(device)
    for nbytes in CONTEST_SIZES[:3]:
        summed(device, rank, size, nbytes // 4)
    small = device.tensor(torch.zeros(size))
    dist.all_to_all_single(device.tensor(torch.zeros(size)), small)  # ranks could have different amounts
    dist.send(small, (rank + 1) % size)
    recording: Any = cuda
    recording.captures = lambda: True
    summed(device, rank, size, 5)
    return other.calls


@pytest.mark.parametrize("wins", [(True, False, True, False), (True, True, True, True)])
def test_nccl_keeps_what_it_does_faster_and_what_it_alone_can(ranks: Ranks, wins: tuple[bool, ...]) -> None:
    kept = [("allreduce", size) for size, won in zip(CONTEST_SIZES[:3], wins, strict=False) if not won]
    for calls in ranks(divided, 2, environment=AUTO, wins=wins, fresh=True):
        assert calls == [*kept, ("alltoall_base", 8), ("send", 8), ("allreduce", 20)]


def shared(rank: int, size: int) -> tuple[str, list[tuple[str, int]]]:
    from torch.distributed.distributed_c10d import _get_default_group

    device = Device()
    other = beside(device)
    for count in (3, 100_000):
        summed(device, rank, size, count)
    dist.all_to_all_single(device.tensor(torch.zeros(size)), device.tensor(torch.zeros(size)))
    group: Any = _get_default_group()
    return group._verdict.reason, other.calls


def test_ranks_that_share_a_device_need_no_nccl(ranks: Ranks) -> None:
    for reason, calls in ranks(shared, 2, environment=AUTO, fresh=True):
        assert "ranks share a device" in reason and not calls


def broken(rank: int, size: int) -> tuple[str, list[tuple[str, int]]]:
    from torch.distributed.distributed_c10d import _get_default_group

    device = Device()
    other = beside(device)
    if rank == 1:
        device.fail("cuMemHostRegister")
    summed(device, rank, size, 3)
    dist.all_reduce(torch.zeros(3))  # the group goes on
    group: Any = _get_default_group()
    return group._verdict.reason, other.calls


def test_a_device_that_the_engine_cannot_work_on_is_left_to_nccl(ranks: Ranks) -> None:
    for reason, calls in ranks(broken, 2, environment=AUTO, fresh=True):
        assert "rank 1 (" in reason and "cannot work on its device: cuMemHostRegister failed" in reason
        assert calls == [("allreduce", 12)]


def crowded(rank: int, size: int) -> tuple[str, list[tuple[str, int]]]:
    from torch.distributed.distributed_c10d import _get_default_group

    device = Device()
    device.differs(rank + 1)
    other = beside(device)
    device.refuses = rank == 1
    summed(device, rank, size, 3)
    group: Any = _get_default_group()
    return group._verdict.reason, other.calls


def test_nccl_keeps_all_if_a_rank_has_no_room_to_time_both(ranks: Ranks) -> None:
    for reason, calls in ranks(crowded, 2, environment=AUTO, fresh=True):
        assert reason == "a rank's device has no room for 16 MiB, to time both"
        assert calls == [("allreduce", 12)]


def chosen(rank: int, size: int, wish: str) -> None:
    from torch.distributed.distributed_c10d import _get_default_group

    from paceline.torch import accelerator

    seam: Any = accelerator
    group: Any = _get_default_group()
    for nccl in (True, False):
        seam.dist.is_nccl_available = lambda nccl=nccl: nccl
        settled = {"engine": False, "nccl": True, "auto": None if nccl else False}[wish]
        assert group._settled(CUDA) is settled
        assert group._settled(torch.device("xpu", 0)) is True


@pytest.mark.parametrize("wish", ["engine", "nccl", "auto", None])
def test_who_serves_cuda_tensors(ranks: Ranks, wish: str | None) -> None:
    ranks(chosen, 1, environment={"PACELINE_CUDA": wish} if wish else None, fresh=True, wish=wish or "nccl")
