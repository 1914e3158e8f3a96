"""Subgroups, splits, names, and the life of a group."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch_ranks import Ranks

from paceline.observe.trace.event import events
from paceline.process.current import runtime
from paceline.torch.compat import HOOKS, torch_version
from paceline.torch.data import Loader

ALGORITHMS = set("one_shot shared in_place fetched staged direct dissemination ring flat binomial none".split())


def _sum_over(group: Any) -> float:
    tensor = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def check_overlapping_groups(rank: int, size: int) -> None:
    groups = [[0, 1], [1, 2], [0, 2], [2, 1, 0]]
    made = [dist.new_group(members) for members in groups]
    for members, group in zip(groups, made, strict=True):
        if rank in members:
            assert _sum_over(group) == sum(members)
            assert dist.get_rank(group) == sorted(members).index(rank)
        else:
            assert group == dist.GroupMember.NON_GROUP_MEMBER
    works = []
    for members, group in zip(groups, made, strict=True):
        if rank in members:
            works.append(dist.all_reduce(torch.ones(1000), group=group, async_op=True))
    for work in reversed(works):
        assert work is not None
        work.wait()
    for members, group in zip(groups, made, strict=True):
        if rank in members:
            dist.destroy_process_group(group)


def check_subgroup_roots_are_global(rank: int, size: int) -> None:
    group = dist.new_group([1, 2])
    if rank == 0:
        return
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, 2, group=group)
    assert tensor.item() == 2
    parts = [torch.zeros(1), torch.zeros(1)] if rank == 1 else None
    dist.gather(torch.tensor([float(rank)]), parts, dst=1, group=group)
    assert parts is None or [part.item() for part in parts] == [1, 2]


def check_split(rank: int, size: int) -> None:
    world: Any = dist.group.WORLD
    group = world.split_group([2, 0], group_name="pair", group_desc="two of them")
    if rank == 1:
        assert group is None
        return
    assert group.size() == 2 and group.rank() == [2, 0].index(rank)
    tensor = torch.tensor([float(rank)])
    group.allreduce([tensor]).wait()
    assert tensor.item() == 2
    assert group.group_name == "pair" and group.group_desc == "two of them"
    group.shutdown()


def check_split_through_torch(rank: int, size: int) -> None:
    if torch_version() < (2, 15):
        with pytest.raises(RuntimeError, match="No device associated with the default pg"):
            dist.split_group(split_ranks=[[2, 0], [1]])
        return
    group: Any = dist.split_group(split_ranks=[[2, 0], [1]])
    assert group.size() == (1 if rank == 1 else 2)
    assert _sum_over(group) == (1 if rank == 1 else 2)


def check_what_hooks_would_miss(rank: int, size: int) -> None:
    """Torch's hooks would never be called, and saying so beats taking them."""
    world: Any = dist.group.WORLD
    for register in (world.register_pre_hook, world.register_post_hook):
        with pytest.raises(NotImplementedError, match="go past torch's dispatcher"):
            register(1, print)
    if torch_version() >= HOOKS:
        assert not world.supports_reconfigure and not world.supports_window


def check_names(rank: int, size: int) -> None:
    world: Any = dist.group.WORLD
    assert dist.get_backend() == "paceline" and world.name() == "paceline"
    assert world.group_desc == "default_pg" and world.group_name
    group: Any = dist.new_group(group_desc="the second")
    assert group.group_desc == "the second" and group.group_name != world.group_name
    assert (group.rank(), group.size()) == (rank, size)
    assert torch.device("cpu") in world._device_types


def check_sequence_numbers(rank: int, size: int) -> None:
    world: Any = dist.group.WORLD
    before = world._get_sequence_number_for_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(1))
    assert world._get_sequence_number_for_group() == before + 3


def check_timeout_can_change(rank: int, size: int) -> None:
    world: Any = dist.group.WORLD
    world.set_timeout(timedelta(seconds=20))
    dist.barrier()
    options = dist.BarrierOptions()
    options.timeout = timedelta(seconds=10)
    world.barrier(options).wait()


def check_local_synchronization(rank: int, size: int) -> None:
    group = dist.new_group([0, 2], use_local_synchronization=True)
    if rank != 1:
        assert _sum_over(group) == 2


def check_threads(rank: int, size: int) -> None:
    """One group per thread, all at once."""
    groups: list[Any] = [dist.new_group() for _ in range(4)]
    wrong: list[str] = []

    def work(index: int) -> None:
        for step in range(50):
            tensor = torch.full((100 * (index + 1),), float(step + index))
            dist.all_reduce(tensor, group=groups[index])
            if not tensor.eq(size * (step + index)).all():
                wrong.append(f"group {index} step {step}")

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong


def check_again_after_destroy(rank: int, size: int) -> None:
    before = threading.active_count()
    for _ in range(5):
        group = dist.new_group()
        assert _sum_over(group) == sum(range(size))
        dist.destroy_process_group(group)
    assert threading.active_count() == before
    # What the groups did is remembered longer than they are.
    assert {event.algorithm for event in events(runtime().events())} <= ALGORITHMS


def check_subgroups_by_enumeration(rank: int, size: int) -> None:
    group, _ = dist.new_subgroups_by_enumeration([[0, 2], [1]])
    assert _sum_over(group) == (1 if rank == 1 else 2)


def check_what_torch_asks_of_a_backend(rank: int, size: int) -> None:
    """Gloo's backend answers some questions by a RuntimeError, and so may we; everything else it knows, we know."""
    ours = dist.group.WORLD
    gloo = dist.new_group([rank], backend="gloo", use_local_synchronization=True)  # alone, it connects to nobody
    assert ours is not None
    assert (ours.rank(), ours.size()) == (rank, size)

    def answer(backend: object, name: str) -> object:
        try:
            given = getattr(backend, name)
            return given() if name in CALLED else given
        except RuntimeError as error:
            return type(error)

    cpu = torch.device("cpu")
    for left, right, kind in (
        (ours._get_backend(cpu), gloo._get_backend(cpu), dist._Backend),  # type: ignore[attr-defined]
        (ours, gloo, dist.ProcessGroup),
    ):
        for name in dir(kind):
            expected = None if name.startswith("__") else answer(right, name)
            found = answer(left, name)
            if isinstance(expected, bool | int | type):
                assert found == expected, name
    memory = ours._get_backend(cpu).allocate_tensor(5, dtype=torch.float64, device=cpu)
    assert memory.shape == (5,) and memory.dtype == torch.float64
    options = ours._get_backend(cpu).options
    assert (options.backend, options._timeout) == ("paceline", timedelta(seconds=30))
    assert not ours._has_hooks() and isinstance(ours.get_group_store(), dist.Store)
    for refused in (ours._wait_for_pending_works, lambda: ours._register_on_completion_hook(print)):
        with pytest.raises(RuntimeError, match="which only NCCL's does"):
            refused()


CALLED = ("memory_stats", "suspend", "resume")


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_group(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 3)


def test_only_one_group_at_a_time_is_default(ranks: Ranks) -> None:
    for _ in range(3):
        ranks(check_names, 3)


def check_forked_child(rank: int, size: int) -> None:
    """A data loader's worker inherits the process group, but is no rank of it."""
    few, whole = torch.ones(4), torch.ones(4 * size)
    under_way = dist.irecv(torch.empty(4), (rank + 1) % size, tag=3)
    assert under_way is not None
    data = [torch.full((3,), float(i)) for i in range(32)]
    loader = Loader(data, 4 * size)
    alone = Loader(data, 8, group=dist.new_subgroups(1)[0])
    batches, batches_alone = iter(loader), iter(alone)
    calls: list[Callable[[], object]] = [
        lambda: dist.all_reduce(few),
        lambda: dist.all_reduce(few, async_op=True),
        lambda: dist.broadcast(few, 0),
        lambda: dist.all_gather_into_tensor(whole, few),
        lambda: dist.all_gather([few.clone() for _ in range(size)], few),
        lambda: dist.reduce_scatter_tensor(few, whole),
        lambda: dist.all_to_all_single(whole, whole.clone()),
        lambda: dist.all_gather_object([None] * size, "x"),
        lambda: dist.send(few, (rank + 1) % size),
        lambda: dist.recv(few, (rank + 1) % size),
        dist.barrier,
        under_way.wait,
        dist.new_group,
        lambda: next(batches),
        lambda: iter(loader),
        lambda: Loader(data, 8),
        lambda: next(batches_alone),
        lambda: iter(alone),
    ]
    parent, child = os.getpid(), os.fork()
    if child == 0:
        signal.alarm(60)
        good = True
        for call in calls:
            try:
                call()
            except RuntimeError as error:
                good = good and f"this process was forked from process {parent}" in str(error)
            else:
                good = False
        os._exit(0 if good else 1)
    for _ in range(20):
        assert _sum_over(None) == size * (size - 1) / 2
    assert os.waitpid(child, 0)[1] == 0
    assert [batch[0, 0].item() for batch in batches] == [4 * (size * batch + rank) for batch in range(8 // size)]
    assert len(list(batches_alone)) == len(list(alone)) == 4
    loader.close()
    alone.close()
    dist.send(few, (rank - 1) % size, tag=3)
    under_way.wait()
    assert _sum_over(None) == size * (size - 1) / 2


def test_a_forked_child_is_refused(ranks: Ranks) -> None:
    ranks(check_forked_child, 2)
