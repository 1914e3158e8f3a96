"""Starting and ending, who is where, process sets, names and handles."""

from __future__ import annotations

import os
from functools import partial

import pytest
import torch
from horovod_ranks import Ranks

from paceline.horovod.rank_layout import place


def check_place(rank: int, size: int) -> tuple[int, int, int, int, bool]:
    import paceline.horovod.torch as hvd

    assert (hvd.rank(), hvd.size()) == (rank, size)
    assert hvd.is_initialized()
    hvd.init()  # once more changes nothing
    assert not any((hvd.mpi_built(), hvd.mpi_enabled(), hvd.gloo_built(), hvd.gloo_enabled(), hvd.ddl_built()))
    assert not any((hvd.ccl_built(), hvd.cuda_built(), hvd.rocm_built()))
    assert hvd.nccl_built() == 0
    with pytest.raises(ValueError, match="MPI is not enabled"):
        hvd.mpi_threads_supported()
    return hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), hvd.is_homogeneous()


@pytest.mark.parametrize(
    ("machines", "places"),
    [
        ("00", [(0, 2, 0, 1, True), (1, 2, 0, 1, True)]),
        ("010", [(0, 2, 0, 2, False), (0, 1, 1, 2, False), (1, 2, 0, 1, False)]),
    ],
)
def test_who_is_where(ranks: Ranks, machines: str, places: list[tuple[int, int, int, int, bool]]) -> None:
    assert ranks(check_place, len(machines), machines=machines) == places


def test_places() -> None:
    seen = [place(rank, list("abab")) for rank in range(4)]
    assert [(p.local_rank, p.local_size, p.cross_rank, p.cross_size) for p in seen] == [
        (0, 2, 0, 2),
        (0, 2, 1, 2),
        (1, 2, 0, 2),
        (1, 2, 1, 2),
    ]
    assert all(p.homogeneous for p in seen)
    deep = place(3, list("baaa"))
    assert (deep.local_rank, deep.cross_rank, deep.cross_size, deep.homogeneous) == (2, 0, 1, False)


def check_life(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    for _ in range(3):
        assert not hvd.is_initialized()
        for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.cross_size, hvd.is_homogeneous, hvd.barrier):
            with pytest.raises(ValueError, match=r"has not been initialized; use hvd\.init\(\)"):
                call()
        with pytest.raises(ValueError, match="has not been initialized"):
            hvd.allreduce(torch.ones(1))
        hvd.init()
        assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [float(size)] * 3
        hvd.shutdown()
        hvd.shutdown()
    with pytest.raises(ValueError, match="does without MPI"):
        hvd.init(comm=object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'a list of ProcessSet or "dynamic"'):
        hvd.init(process_sets="static")


def test_init_and_shutdown_any_number_of_times(ranks: Ranks) -> None:
    ranks(check_life, init=False)


def check_part(rank: int, size: int) -> None:
    """The first argument of init: some ranks of the launcher, in another order."""
    import paceline.horovod.torch as hvd

    if rank == 1:
        with pytest.raises(ValueError, match=r"rank 1 is not among the ranks \[2, 0\] that init"):
            hvd.init([2, 0])
        return
    hvd.init([2, 0])
    assert (hvd.rank(), hvd.size()) == ([1, None, 0][rank], 2)
    assert hvd.allgather(torch.tensor([rank])).tolist() == [2, 0]


@pytest.mark.smoke
def test_a_job_of_some_ranks(ranks: Ranks) -> None:
    ranks(check_part, 3, init=False, fresh=True)


def check_process_sets(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    even, odd = hvd.ProcessSet([0, 2]), hvd.ProcessSet(range(1, 2))
    assert (even.size(), even.rank()) == (None, None)
    hvd.init(process_sets=[even, odd])
    assert (hvd.global_process_set.ranks, hvd.global_process_set.size(), hvd.global_process_set.rank()) == (
        [0, 1, 2],
        3,
        rank,
    )
    mine, other = (even, odd) if rank % 2 == 0 else (odd, even)
    assert (even.process_set_id, odd.process_set_id) == (1, 2)
    assert mine.included() and not other.included()
    assert (mine.rank(), other.size()) == (rank // 2, 1 if rank % 2 == 0 else 2)
    with pytest.raises(ValueError, match="not part of provided process set"):
        other.rank()
    tensor = torch.tensor([rank + 1.0, 0.5])
    total = [4.0, 1.0] if rank % 2 == 0 else [2.0, 0.5]
    assert hvd.allreduce(tensor, op=hvd.Sum, process_set=mine).tolist() == total
    assert hvd.allreduce(tensor, process_set=mine).tolist() == [value / mine.size() for value in total]
    assert hvd.allgather(tensor, process_set=mine).tolist() == [float(v) for r in mine.ranks for v in (r + 1, 0.5)]
    root = mine.ranks[-1]
    assert hvd.broadcast(tensor, root, process_set=mine).tolist() == [root + 1.0, 0.5]
    assert hvd.broadcast_object({"rank": rank}, root, process_set=mine) == {"rank": root}
    assert hvd.allgather_object(rank) == [0, 1, 2]
    rows = torch.full((mine.size(), 2), float(rank))
    assert hvd.alltoall(rows, process_set=mine)[:, 0].tolist() == [float(r) for r in mine.ranks]
    part = hvd.reducescatter(rows, op=hvd.Sum, process_set=mine)
    assert part.tolist() == [[float(sum(mine.ranks))] * 2]
    leaf = torch.ones(2, requires_grad=True)
    hvd.allgather(leaf, process_set=mine).sum().backward()
    assert leaf.grad.tolist() == [1.0, 1.0]
    hvd.barrier(process_set=mine)
    for call in (hvd.allreduce, hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with pytest.raises(ValueError, match=rf"Rank {rank} is not a member of the provided process set"):
            call(rows, process_set=other)
    with pytest.raises(ValueError, match="is not one of the ranks"):
        hvd.broadcast(tensor, other.ranks[0], process_set=mine)

    late = hvd.add_process_set([1, 0])
    assert late.ranks == [0, 1] and late.process_set_id == 3
    if rank < 2:
        assert hvd.allreduce(tensor, op=hvd.Sum, process_set=late).tolist() == [3.0, 1.0]
    for twice in ([0, 1], [0, 1, 2]):
        with pytest.raises(ValueError, match="duplicate process set"):
            hvd.add_process_set(twice)
    with pytest.raises(ValueError, match=rf"rank {rank} adds process set \[.*\], but rank \d adds"):
        hvd.add_process_set([0] if rank else [0, 2])
    for wrong in ([], [0, 3], [1, 1]):
        with pytest.raises(ValueError, match="needs different ranks from 0 to 2"):
            hvd.add_process_set(wrong)
    with pytest.raises(ValueError, match="list of process ranks"):
        hvd.ProcessSet(["0"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="does without MPI"):
        hvd.ProcessSet(object())  # type: ignore[arg-type]
    assert hvd.remove_process_set(late)
    assert late.process_set_id is None and not hvd.remove_process_set(late)
    assert not hvd.remove_process_set(hvd.global_process_set)
    with pytest.raises(ValueError, match="does not exist, or has not been registered"):
        hvd.allreduce(tensor, process_set=late)
    again = hvd.add_process_set(late)
    assert again is late and late.process_set_id == 4
    assert hvd.allreduce(tensor, op=hvd.Sum)[1].item() == 1.5


def test_process_sets(ranks: Ranks) -> None:
    ranks(check_process_sets, 3, init=False)


def check_a_set_given_twice(rank: int, size: int) -> None:
    import paceline.horovod.torch as hvd

    with pytest.raises(ValueError, match="process_sets entry 1: Attempted to add a duplicate process set"):
        hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
    assert not hvd.is_initialized()
    hvd.init(process_sets="dynamic")
    with pytest.raises(ValueError, match="initialized already"):
        hvd.init(process_sets=[hvd.ProcessSet([0])])
    assert hvd.allreduce(torch.ones(1)).item() == 1.0


def test_a_process_set_given_twice(ranks: Ranks) -> None:
    ranks(check_a_set_given_twice, init=False)


def check_forked_child(rank: int, size: int) -> None:
    """A data loader's worker may ask who it is, and its end is no end of the job."""
    import paceline.horovod.torch as hvd

    child = os.fork()
    if child == 0:
        good = (hvd.rank(), hvd.size()) == (rank, size)
        calls = [partial(call, torch.ones(2), name="of a child") for call in (hvd.allreduce, hvd.allgather)]
        for call in (*calls, partial(hvd.broadcast_object, 1), hvd.barrier, hvd.join):
            try:
                call()
            except RuntimeError as error:
                good = good and "this process was forked" in str(error)
            else:
                good = False
        hvd.shutdown()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [float(size)] * 2


def test_a_forked_child(ranks: Ranks) -> None:
    ranks(check_forked_child)
