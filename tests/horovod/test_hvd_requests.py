"""Requests that fail, are many, or do not fit: memory stays while it is used, and what cannot be served is said."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from horovod_ranks import Ranks


def check_grouped_call_of_which_one_is_refused(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    flags = torch.ones(4, dtype=torch.bool)
    calls: list[Callable[[list[torch.Tensor]], Any]] = [
        lambda tensors: hvd.grouped_allreduce(tensors, name="g"),
        lambda tensors: hvd.grouped_allreduce_(tensors, name="g"),
        lambda tensors: hvd.grouped_reducescatter(tensors, name="g"),
        lambda tensors: hvd.grouped_allreduce(tensors, name="g", op=hvd.Adasum),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"bool|floating-point"):
            call([torch.ones(4), flags])
        results = call([torch.ones(4), torch.full((4,), 2.0)])  # nothing of the first call is under way
        assert [result.unique().tolist() for result in results] == [[1.0], [2.0]]
    counts = torch.full((4,), 3, dtype=torch.int32)
    with pytest.raises(ValueError, match="AVG is not defined for bool"):
        hvd.grouped_allreduce_([counts, flags], name="g", prescale_factor=2.0)
    assert counts.unique().tolist() == [3]  # nor is anything changed
    with pytest.raises(ValueError, match="at most 2048"):
        hvd.grouped_allreduce(
            [torch.ones(4), torch.ones(*[1] * 10)], name="g" * (2048 - len("grouped_allreduce._1of24"))
        )


def test_a_grouped_call_is_submitted_whole_or_not(ranks: Ranks) -> None:
    ranks(check_grouped_call_of_which_one_is_refused)


def check_late_member(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    tensors = [torch.ones(4 + 2 * rank), torch.full((1 << 20,), 1.0 + rank)]
    if rank == 0:
        handle = hvd.grouped_allgather_async([tensors[0].reshape(2, -1), tensors[1]], name="g")
        with pytest.raises(hvd.HorovodInternalError, match="disagree"):
            hvd.synchronize(handle)
    else:
        with pytest.raises(hvd.HorovodInternalError, match="disagree"):
            hvd.grouped_allgather([tensors[0].reshape(2, -1), tensors[1]], name="g")
    again = hvd.grouped_allgather([torch.ones(2), tensors[1]], name="g")  # neither name is under way any more
    assert again[1].unique().tolist() == [1.0, 2.0]


def test_a_grouped_call_that_fails_is_over(ranks: Ranks) -> None:
    ranks(check_late_member)


def check_memory_of_a_call_that_nobody_waits_for(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd
    from paceline.horovod import job

    tensors = [torch.ones(1 << 16) for _ in range(2)]
    kept = [weakref.ref(tensor) for tensor in tensors]
    if rank == 0:
        handle = hvd.grouped_allreduce_async_(tensors, name="late", op=hvd.Sum)
        job.current().handles._pending.pop(handle)
        del tensors
        gc.collect()
        assert all(tensor() is not None for tensor in kept)  # the requests still write there
    hvd.barrier()
    if rank == 1:
        results = hvd.grouped_allreduce_(tensors, name="late", op=hvd.Sum)
        assert all(result.unique().tolist() == [2.0] for result in results)
    hvd.barrier()


def test_memory_stays_while_requests_use_it(ranks: Ranks) -> None:
    ranks(check_memory_of_a_call_that_nobody_waits_for)


def check_many(rank: int, size: int, seed: int) -> None:
    import paceline.horovod.torch as hvd

    numbers = list(range(5000))
    for step in range(2):
        handles = {
            number: hvd.allreduce_async(torch.tensor([float(number + step)]), name=f"t{number}", op=hvd.Sum)
            for number in (numbers if rank == 0 else reversed(numbers))
        }
        for number, handle in handles.items():
            assert hvd.synchronize(handle).item() == size * (number + step)
    parameters = {f"p{number}": torch.full((2,), float(rank)) for number in numbers}
    hvd.broadcast_parameters(parameters, 1)
    assert all(parameter.tolist() == [1.0, 1.0] for parameter in parameters.values())


@pytest.mark.parametrize("machines", ["00", "01"])
def test_any_number_of_requests_is_under_way_at_once(ranks: Ranks, machines: str) -> None:
    ranks(check_many, 2, machines=machines, seed=3)


def check_join_after_adasum(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    tensor = torch.ones(1 << 20) * (1 + rank)
    handle = hvd.allreduce_async(tensor, name="x", op=hvd.Adasum)
    if rank == 1:
        hvd.join()
    combined = hvd.synchronize(handle)
    assert combined.unique().numel() == 1 and 1 <= combined[0] <= 2
    if rank == 0:
        hvd.join()


def test_what_was_submitted_before_a_join_is_carried_out(ranks: Ranks) -> None:
    ranks(check_join_after_adasum)


def check_dtypes(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    def fails(call: Any) -> None:
        with pytest.raises(hvd.HorovodInternalError, match=r"int16.*complex64|complex64.*int16"):
            call()

    dtype = [torch.int16, torch.complex64][rank]
    fails(lambda: hvd.allgather(torch.ones(2, 2, dtype=dtype)))
    fails(lambda: hvd.broadcast(torch.ones(4 if rank else 16, dtype=dtype), 0))
    fails(lambda: hvd.alltoall(torch.ones(2, 2, dtype=dtype)))
    with pytest.raises(hvd.HorovodInternalError, match="uint16"):
        hvd.broadcast_(torch.ones(3, dtype=[torch.int16, torch.uint16][rank]), 0)
    assert hvd.allgather(torch.ones(1, dtype=torch.int16)).dtype == torch.int16


def test_dtypes_that_only_move_must_agree_too(ranks: Ranks) -> None:
    ranks(check_dtypes)


def check_factor_that_is_no_number(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for _ in range(2):
        assert hvd.allreduce(torch.ones(2), prescale_factor=float("nan"), name="scaled").isnan().all()
        assert hvd.allreduce(torch.ones(2), postscale_factor=float("nan"), name="scaled").isnan().all()


@pytest.mark.parametrize("policy", ["board", "cycle"])
def test_a_factor_that_is_no_number(ranks: Ranks, policy: str) -> None:
    ranks(check_factor_that_is_no_number, environment={"PACELINE_POLICY": policy})


def check_rows_that_go_to_nobody(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    rows = torch.ones(5, 2, requires_grad=True)
    received, _ = hvd.alltoall(rows, [1, 2], name="rows")
    (received * (1 + rank)).sum().backward()
    assert rows.grad is not None and rows.grad[:, 0].tolist() == [1, 2, 2, 0, 0]


def test_the_gradient_of_rows_that_go_to_nobody(ranks: Ranks) -> None:
    ranks(check_rows_that_go_to_nobody)


def check_stale_sets(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    stale = hvd.add_process_set([0, 1])
    hvd.shutdown()
    hvd.init()
    assert stale.process_set_id is None
    other = hvd.add_process_set([0, 2])
    with pytest.raises(ValueError, match="does not exist, or has not been registered"):
        hvd.allreduce(torch.ones(1), process_set=stale)
    assert not hvd.remove_process_set(stale)
    hvd.add_process_set(stale)
    if rank < 2:
        assert hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum, process_set=stale).item() == 1
    hvd.remove_process_set(stale)
    hvd.remove_process_set(other)


def test_a_process_set_is_not_one_of_the_next_job(ranks: Ranks) -> None:
    ranks(check_stale_sets, 3)


def check_set_during_join(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    if rank != 1:
        with pytest.raises(ValueError, match="rank 1 has joined"):
            hvd.add_process_set([0, 1])
    hvd.join()
    hvd.remove_process_set(hvd.add_process_set([0, 1]))


def test_a_process_set_cannot_be_added_during_a_join(ranks: Ranks) -> None:
    ranks(check_set_during_join, 3)


class _Unpacked(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("dictionary changed size during iteration")


def check_objects_that_cannot_be_packed(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for bad in (torch.ones(2, device="meta"), 1 << 20000, _Unpacked(a=1)):
        mine = bad if rank == 0 else "sound"
        with pytest.raises(TypeError, match="rank 0"):
            hvd.broadcast_object(mine, 0)
        with pytest.raises(TypeError, match="rank 0"):
            hvd.allgather_object(mine)
        assert hvd.allgather_object(rank) == list(range(size))


def test_objects_that_cannot_be_packed_are_refused_everywhere(ranks: Ranks) -> None:
    ranks(check_objects_that_cannot_be_packed)


def check_parts(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    hvd.init(comm=[[0, 2], [3, 1]][rank % 2])
    assert hvd.size() == 2 and hvd.rank() == [0, 1, 1, 0][rank]
    assert hvd.allreduce(torch.tensor([float(rank)]), op=hvd.Sum).item() == [2, 4][rank % 2]
    hvd.shutdown()
    with pytest.raises(
        ValueError, match=r"rank 0 was called with init\(comm=\[0, 1\]\), but rank 1 of it with \[1, 2\]"
    ):
        hvd.init(comm=[[0, 1], [1, 2], [1, 2], [3]][rank])


def test_jobs_of_parts_of_the_ranks(ranks: Ranks) -> None:
    ranks(check_parts, 4, init=False)
