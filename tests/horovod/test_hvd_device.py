"""Horovod's calls on CUDA tensors stay on the device, and give what they give on CPU tensors."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from cuda_stand_in import Device
from horovod_ranks import Ranks
from torch import Tensor

ENGINE = {"PACELINE_CUDA": "engine"}
DTYPES = [torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
SHAPES: list[tuple[int, ...]] = [(), (3, 4), (0,), (2500,), (60, 500), (300, 1000)]


def number(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Small whole numbers, other ones on each rank."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count).reshape(shape) * 3 + 5 * rank) % 4 + 1).to(dtype)


def requests(device: Device) -> int:
    """How many moments of a stream were noted: each request on the device notes at least its own."""
    return device.calls("cuEventRecord")


def reduced(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    device = Device()
    ops = (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product)
    factors = [(1.0, 1.0), (0.5, 4.0)]
    small: list[tuple[int, ...]] = [(), (0,), (3, 4), (60, 50)]
    combinations = [*itertools.product(DTYPES, small, ops[:1], factors[:1])]
    combinations += itertools.product((torch.int32, torch.float32), SHAPES[3:5], ops, factors)
    combinations.append((torch.float32, SHAPES[-1], hvd.Average, factors[1]))
    for dtype, shape, op, (prescale, postscale) in combinations:
        mine = number(rank, shape, dtype)
        how: dict[str, Any] = {"op": op, "prescale_factor": prescale, "postscale_factor": postscale}
        right = hvd.allreduce(mine, name="host", **how)
        there = device.tensor(mine)
        before = requests(device)
        given = hvd.allreduce(there, name="device", **how)
        assert requests(device) > before, (dtype, shape)
        assert given is not there and given.device == there.device
        assert torch.equal(device.host(given), right), (dtype, shape, op, given, right)
        assert torch.equal(device.host(there), mine)
        assert hvd.allreduce_(there, name="place", **how) is there
        assert torch.equal(device.host(there), right)


def test_allreduce(ranks: Ranks) -> None:
    ranks(reduced, 2, environment=ENGINE, fresh=True)


def grouped(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    device = Device()
    mine = [number(rank, shape, torch.float32) for shape in SHAPES]
    right = hvd.grouped_allreduce(mine, name="host", op=hvd.Sum)
    # One of them lies on the host.
    there = [device.tensor(tensor) for tensor in mine[:-1]]
    given = hvd.grouped_allreduce([*there, mine[-1]], name="device", op=hvd.Sum)
    assert torch.equal(given.pop(), right[-1])
    for result, tensor in zip(given, right, strict=False):
        assert torch.equal(device.host(result), tensor)
    many = [number(rank, (50, width + 1), torch.float32) for width in range(12)]
    launched = device.calls("cuLaunchKernel")
    for result, tensor in zip(hvd.grouped_allreduce([*map(device.tensor, many)], name="many"), many, strict=True):
        everyone = [number(other, (*tensor.shape,), torch.float32) for other in range(size)]
        assert torch.equal(device.host(result), torch.stack(everyone).sum(0) / size)
    assert device.calls("cuLaunchKernel") == launched + 1  # they go as one
    columns = device.tensor(number(rank, (40, 60), torch.float32).T)
    handles = [hvd.allreduce_async_(tensor, name=str(i)) for i, tensor in enumerate([*there, columns])]
    for handle, (tensor, first) in zip(handles[::-1], [*zip(there, mine, strict=False)][::-1], strict=False):
        hvd.synchronize(handle)
        assert first.shape == tensor.shape
    for handle in handles:
        hvd.synchronize(handle)
    for tensor, total in zip(there, right, strict=False):
        assert torch.equal(device.host(tensor), total / size)
    everyone = [number(other, (40, 60), torch.float32).T for other in range(size)]
    assert torch.equal(device.host(columns), torch.stack(everyone).sum(0) / size)


def test_groups_and_handles_in_any_order(ranks: Ranks) -> None:
    ranks(grouped, 3, environment=ENGINE, fresh=True)


def moved(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    device = Device()
    for dtype, shape in itertools.product((*DTYPES, torch.bool), SHAPES):
        mine = number(rank, shape, dtype)
        there = device.tensor(mine)
        before = requests(device)
        given = hvd.broadcast(there, 1, name="new")
        assert requests(device) > before
        assert torch.equal(device.host(given), number(1, shape, dtype))
        assert torch.equal(device.host(there), mine)
        assert hvd.broadcast_(there, 1, name="place") is there
        assert torch.equal(device.host(there), number(1, shape, dtype))
    for dtype, rows, (op, factors) in itertools.product(
        (torch.int32, torch.float32), (6, 7, 1), ((hvd.Sum, (1.0, 1.0)), (hvd.Average, (0.5, 4.0)))
    ):
        mine = number(rank, (rows, 1000), dtype)
        right = hvd.reducescatter(mine, "host", op=op, prescale_factor=factors[0], postscale_factor=factors[1])
        there = device.tensor(mine)
        before = requests(device)
        part = hvd.reducescatter(there, "device", op=op, prescale_factor=factors[0], postscale_factor=factors[1])
        assert requests(device) > before
        assert torch.equal(device.host(part), right), (dtype, rows, op)
        assert torch.equal(device.host(there), mine)


def test_broadcast_and_reducescatter(ranks: Ranks) -> None:
    ranks(moved, 3, environment=ENGINE, fresh=True)


def gathered(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    device = Device()
    rows: list[tuple[list[int], tuple[int, ...]]] = [([1, 2, 3], (4,)), ([2, 2, 2], ()), ([0, 0, 0], (5,))]
    rows += [([0, 3000, 1], (20,)), ([2, 0, 1], (0, 3)), ([40_000, 40_000, 40_000], ())]
    for dtype, (counts, shape) in itertools.product((torch.bool, torch.bfloat16, torch.int64, torch.float32), rows):
        everyone = [number(other, (counts[other], *shape), dtype) for other in range(size)]
        there = device.tensor(everyone[rank])
        before = requests(device)
        given = hvd.allgather(there, "rows")
        assert requests(device) > before
        assert given.dtype == dtype and given.device == there.device
        assert torch.equal(device.host(given), torch.cat(everyone)), (dtype, counts, shape)
        assert torch.equal(device.host(there), everyone[rank])
        # What rank i sends to rank j is a part of the rows of rank i, and some are left.
        splits = [[counts[sender] * (sender + other) // 10 for other in range(size)] for sender in range(size)]
        parts = [everyone[sender].split([*s, counts[sender] - sum(s)])[rank] for sender, s in enumerate(splits)]
        received, numbers = hvd.alltoall(there, splits[rank], "parts")
        assert numbers.tolist() == [part.shape[0] for part in parts]
        assert received.device == there.device
        assert torch.equal(device.host(received), torch.cat(parts)), (dtype, counts, shape)
    mine = [number(rank, (rank + 1, 3), torch.float32), number(rank, (5 * rank,), torch.int32)]
    both = hvd.grouped_allgather([device.tensor(tensor) for tensor in mine])
    for column, tensor in enumerate(both):
        everyone = [
            (number(other, (other + 1, 3), torch.float32), number(other, (5 * other,), torch.int32))[column]
            for other in range(size)
        ]
        assert torch.equal(device.host(tensor), torch.cat(everyone))


def test_allgather_and_alltoall(ranks: Ranks) -> None:
    ranks(gathered, 3, environment=ENGINE, fresh=True)


def no_room(rank: int, size: int) -> str:
    import paceline.horovod.torch as hvd

    device = Device()
    there = device.tensor(number(rank, (3000,), torch.float32))
    hvd.allgather(there, "rows")
    device.refuses = rank == 1
    with pytest.raises(hvd.HorovodInternalError) as caught:
        hvd.allgather(there, "rows")
    return str(caught.value)


def test_an_outcome_that_a_rank_has_no_memory_for(ranks: Ranks) -> None:
    for said in ranks(no_room, 2, environment=ENGINE, fresh=True):
        assert "failed: rank 1" in said
        assert said.endswith(
            'for the outcome of all_gather "allgather.rows" float32[*] on a device: CUDA out of memory'
        )


def in_sets(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    device = Device()
    some = hvd.add_process_set([0, 2])
    there = device.tensor(number(rank, (3000,), torch.float32))
    if rank != 1:
        given = hvd.allreduce(there, op=hvd.Sum, process_set=some)
        both = number(0, (3000,), torch.float32) + number(2, (3000,), torch.float32)
        assert torch.equal(device.host(given), both)
    everyone = sum(number(other, (3000,), torch.float32) for other in range(size))
    assert torch.equal(device.host(hvd.allreduce(there, op=hvd.Sum)), everyone)
    hvd.remove_process_set(some)


def test_process_sets(ranks: Ranks) -> None:
    ranks(in_sets, 3, environment=ENGINE, fresh=True)


def refused(rank: int, size: int) -> list[str]:
    import paceline.horovod.torch as hvd

    device = Device()
    said = []

    def fails(call: Any) -> None:
        with pytest.raises(hvd.HorovodInternalError) as caught:
            call()
        said.append(str(caught.value))

    host = torch.zeros(3000)
    fails(lambda: hvd.allreduce(host if rank else device.tensor(host), name="mixed"))
    hvd.allreduce(device.tensor(host), name="goes on")
    if rank == 0:  # the other one has joined
        assert torch.equal(device.host(hvd.allreduce(device.tensor(host + 4), name="alone")), host + 2)
        assert torch.equal(device.host(hvd.allgather(device.tensor(host + 4), name="alone")), host + 4)
        fails(lambda: hvd.broadcast(device.tensor(host), 0, name="alone"))
    hvd.join()
    hvd.allreduce(device.tensor(host), name="again")
    if rank == 1:
        device.fail("cuLaunchKernel")
    fails(lambda: [hvd.allreduce(device.tensor(host), name="kernel") for _ in range(3)])
    return said


def test_what_cannot_be_is_said_on_all_ranks(ranks: Ranks) -> None:
    first, second = ranks(refused, 2, environment=ENGINE, fresh=True)
    for said in (first[0], second[0]):
        assert "rank 0 gave all_reduce float32 3000 AVG on a device; rank 1 gave all_reduce float32 3000 AVG" in said
    assert "is a broadcast float32 3000 root 0 on a device, which rank 1 cannot take part in" in first[1]
    for said in (first[-1], second[-1]):
        assert "rank 1" in said and "cuLaunchKernel failed with CUDA_ERROR_OUT_OF_MEMORY" in said


ENCODED = 30_000
"""Elements of a tensor that is encoded between machines even if it is carried out alone."""


def drawn(rank: int, call: int) -> Tensor:
    return torch.randn(ENCODED, generator=torch.Generator().manual_seed(10 * rank + call))


def encoded(rank: int, size: int) -> None:
    """With the bits of the same calls on CPU tensors, and so is what encoding has lost."""
    import paceline.horovod.torch as hvd
    from paceline.horovod.torch.allreduce_requests import start

    device = Device()

    def both(call: Any, mine: Tensor, **how: Any) -> Tensor:
        right: Tensor = call(mine.clone(), name="host", **how)
        before = requests(device)
        given = call(device.tensor(mine), name="device", **how)
        assert requests(device) > before
        assert torch.equal(device.host(given), right), how
        return right

    for compression in (hvd.Compression.int8, hvd.Compression.three_in_one):
        for op, factors in ((hvd.Average, (1.0, 1.0)), (hvd.Sum, (0.5, 4.0))):
            how = {"op": op, "prescale_factor": factors[0], "postscale_factor": factors[1]}
            result = both(hvd.allreduce, drawn(rank, 0), compression=compression, **how)
            assert not torch.equal(result, hvd.allreduce(drawn(rank, 0), name="plain", **how)), "nothing was encoded"
        both(hvd.reducescatter, drawn(rank, 1)[:, None], compression=compression, op=hvd.Average)
        both(hvd.reducescatter, drawn(rank, 1)[: ENCODED - 1, None], compression=compression, op=hvd.Sum)  # uneven
    lost, there = torch.zeros(ENCODED), device.tensor(torch.zeros(ENCODED))
    for call in range(3):
        tensors = drawn(rank, call), device.tensor(drawn(rank, call))
        for name, tensor, residual in zip(("host", "device"), tensors, (lost, there), strict=True):
            arguments = hvd.Average, name, 1.0, 1.0, hvd.global_process_set
            hvd.synchronize(start([tensor], True, *arguments, codec="int8", residuals=[residual]))
        assert torch.equal(device.host(tensors[1]), tensors[0])
        assert torch.equal(device.host(there), lost)
    assert hvd.allreduce(lost.abs(), name="lost", op=hvd.Sum).any()
    parameters = {"there": device.tensor(drawn(rank, 7))}
    before = requests(device)
    hvd.broadcast_parameters(parameters, root_rank=1)
    assert requests(device) > before
    assert torch.equal(device.host(parameters["there"]), drawn(1, 7))
    if rank:  # the first rank has joined, and gives zeros
        late = hvd.allreduce(device.tensor(drawn(rank, 0)), name="late", op=hvd.Sum, compression=hvd.Compression.int8)
        others = torch.stack([drawn(other, 0) for other in range(1, size)]).sum(0)
        assert (device.host(late) - others).abs().max() < 0.2
    hvd.join()


def test_codecs_between_machines(ranks: Ranks) -> None:
    ranks(encoded, 3, machines="010", environment={**ENGINE, "PACELINE_COMPRESS": "lossless"}, fresh=True)


def through_the_host(rank: int, size: int) -> bool:
    from paceline.horovod import job

    Device()
    return job.current().channel(0).coordinator.takes_devices


def test_who_serves_them(ranks: Ranks) -> None:
    assert ranks(through_the_host, 2, fresh=True) == [False] * 2
    for wish, stays in (("auto", True), ("engine", True), ("nccl", False)):
        assert ranks(through_the_host, 2, environment={"PACELINE_CUDA": wish}, fresh=True) == [stays] * 2
    graph = {**ENGINE, "PACELINE_POLICY": "graph"}
    assert ranks(through_the_host, 2, environment=graph, fresh=True) == [False] * 2
