"""What a wrong call says, and that a failure reaches whoever waits: wait(), futures, DDP's backward."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.autograd import Variable
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch_ranks import Ranks

from paceline.errors import Aborted, CommunicationError, Mismatch, PeerLost, RendezvousError, Timeout
from paceline.torch import arena_hook


def check_wrong_calls(rank: int, size: int) -> None:
    """All are found before anything is sent, so the group stays usable."""
    group: Any = dist.group.WORLD
    two = [torch.ones(1), torch.ones(1)]
    calls: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: group.allreduce(two), ValueError, "one tensor per rank, got 2"),
        (
            lambda: dist.all_reduce(torch.ones(1, dtype=torch.int16)),
            TypeError,
            "reduces float16, .*found torch.int16",
        ),
        (
            lambda: dist.reduce_scatter_tensor(torch.ones(2), torch.ones(5)),
            ValueError,
            "must have 4 elements, got 5",
        ),
        (
            lambda: dist.all_gather_into_tensor(torch.ones(5), torch.ones(2)),
            ValueError,
            "must have 4 elements, got 5",
        ),
        (lambda: dist.all_gather([torch.ones(1)], torch.ones(1)), ValueError, "each of the 2 ranks, got 1"),
        (lambda: group.broadcast(torch.ones(1), 7), ValueError, "root 7 is not a rank"),
        (
            lambda: group.allgather([[torch.ones(1), torch.ones(1).double()]], [torch.ones(1)]),
            TypeError,
            "one dtype",
        ),
        (
            lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [1, 1], [2, 2]),
            ValueError,
            "sum up to 4",
        ),
        (lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)), ValueError, "not divisible"),
        (lambda: dist.all_to_all_single(torch.ones(3, 2), torch.ones(3, 2)), ValueError, r"\(3\) is not divisible"),
        (lambda: dist.all_to_all_single(torch.ones(6), torch.ones(3, 2)), ValueError, r"\(3\) is not divisible"),
        (lambda: dist.all_reduce(torch.ones(1, device="meta")), RuntimeError, "cannot move a meta tensor"),
    ]
    for call, kind, words in calls:
        with pytest.raises(kind, match=words):
            call()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size


def check_mismatch(rank: int, size: int, asynchronous: bool) -> str:
    with pytest.raises(Mismatch) as caught:
        _all_reduce(torch.ones(4 + rank), asynchronous)
    return str(caught.value)


_SAME_BYTES = [
    (torch.complex64, torch.float32),
    (torch.complex128, torch.complex64),
    (torch.int16, torch.uint16),
    (torch.bool, torch.uint8),
    (torch.float8_e4m3fn, torch.float8_e5m2),
]


def check_dtypes_are_told_apart(rank: int, size: int, of_reductions: bool) -> None:
    """Of tensors that have equally many bytes, whatever the engine knows of their dtypes."""
    for number, (call, dtypes) in enumerate(itertools.product(_REDUCTIONS if of_reductions else _MOVES, _SAME_BYTES)):
        if of_reductions and not dtypes[0].is_complex:
            continue
        # A group that has failed stays so.
        group = dist.new_group()
        kind = dtypes[(number + rank) % 2]
        tensor = torch.zeros(64, dtype=torch.uint8).view(kind)
        names = [rf"{str(dtype).removeprefix('torch.')}\[" for dtype in dtypes]
        if call in (_gather, _scatter, _all_to_all, _message):
            names = [name[:-2] + r"\b" for name in names]
        with pytest.raises(Mismatch) as caught:
            call(tensor, group)
        for name in names:
            assert re.search(name, str(caught.value)), caught.value


def _reduce_scatter(tensor: torch.Tensor, group: Any) -> None:
    dist.reduce_scatter_tensor(torch.empty_like(tensor[: len(tensor) // 2]), tensor, group=group)


def _all_gather(tensor: torch.Tensor, group: Any) -> None:
    dist.all_gather_into_tensor(torch.cat([tensor, tensor]), tensor, group=group)


def _all_to_all(tensor: torch.Tensor, group: Any) -> None:
    dist.all_to_all_single(torch.empty_like(tensor), tensor, group=group)


def _gather(tensor: torch.Tensor, group: Any) -> None:
    dist.gather(tensor, [torch.empty_like(tensor)] * 2 if dist.get_rank() == 0 else None, 0, group=group)
    dist.barrier(group)


def _scatter(tensor: torch.Tensor, group: Any) -> None:
    dist.scatter(torch.empty_like(tensor), [tensor, tensor] if dist.get_rank() == 0 else None, 0, group=group)
    dist.barrier(group)


def _broadcast(tensor: torch.Tensor, group: Any) -> None:
    dist.broadcast(tensor, 0, group=group)
    dist.barrier(group)


def _reduce(tensor: torch.Tensor, group: Any) -> None:
    dist.reduce(tensor, 0, group=group)
    dist.barrier(group)


def _message(tensor: torch.Tensor, group: Any) -> None:
    if dist.get_rank() == 0:
        dist.send(tensor, 1, group=group)
    else:
        dist.recv(tensor, 0, group=group)
    dist.barrier(group)


_REDUCTIONS = [lambda tensor, group: dist.all_reduce(tensor, group=group), _reduce, _reduce_scatter]
_MOVES = [_broadcast, _all_gather, _all_to_all, _gather, _scatter, _message]


def _all_reduce(tensor: torch.Tensor, asynchronous: bool) -> None:
    work = dist.all_reduce(tensor, async_op=asynchronous)
    if work is not None:
        work.wait()


def check_mismatch_in_future(rank: int, size: int) -> None:
    work = dist.all_reduce(torch.ones(4 + rank), async_op=True)
    assert work is not None
    with pytest.raises(Mismatch):
        work.get_future().wait()
    with pytest.raises(Mismatch):
        work.wait()
    assert not work.is_success() and isinstance(work.exception(), Mismatch)  # type: ignore[attr-defined]


def check_chained_future_fails(rank: int, size: int) -> None:
    work = dist.all_reduce(torch.ones(4 + rank), async_op=True)
    assert work is not None
    with pytest.raises(RuntimeError, match="float32"):
        work.get_future().then(lambda done: done.value()[0]).wait()


def check_different_collectives(rank: int, size: int) -> None:
    call = dist.all_reduce if rank == 0 else partial(dist.broadcast, src=0)
    with pytest.raises(Mismatch, match=r"all_reduce(.|\n)*broadcast|broadcast(.|\n)*all_reduce"):
        call(torch.ones(4))


def check_timeout(rank: int, size: int) -> None:
    store = dist.distributed_c10d._get_default_store()  # type: ignore[no-untyped-call]
    dist.barrier()
    world: Any = dist.group.WORLD
    world.set_timeout(timedelta(seconds=1))
    if rank == 0:
        with pytest.raises(Timeout, match="rank 1"):
            dist.all_reduce(torch.ones(1))
        store.set("timed out", "")
    else:
        store.wait(["timed out"])


def check_own_timeout(rank: int, size: int) -> None:
    """Also of a call that blocks, whose timeout is else the group's."""
    store = dist.distributed_c10d._get_default_store()  # type: ignore[no-untyped-call]
    options = dist.AllreduceOptions()
    options.asyncOp = False  # type: ignore[attr-defined]
    options.timeout = timedelta(seconds=1)
    if rank == 0:
        with pytest.raises(Timeout, match=r"timeout of \d(\.\d+)? s on .*rank 1"):
            dist.group.WORLD.allreduce([torch.ones(1)], options)  # type: ignore[union-attr]
        store.set("timed out", "")
    else:
        store.wait(["timed out"])


def check_abort(rank: int, size: int) -> None:
    group: Any = dist.group.WORLD
    if rank == 0:
        time.sleep(0.5)
        group.abort()
        with pytest.raises(Aborted):
            dist.all_reduce(torch.ones(1))
    else:
        with pytest.raises(CommunicationError, match="rank 0 called abort"):
            dist.all_reduce(torch.ones(1))


def check_peer_dies_in_backward(rank: int, size: int, hook: Callable[..., Any] | None, unused: bool = False) -> None:
    """It dies once the others wait for gradients: what DDP's reducer finds out is what `backward` raises."""
    store = dist.distributed_c10d._get_default_store()  # type: ignore[no-untyped-call]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8), find_unused_parameters=unused)
    if hook is not None:
        model.register_comm_hook(None, hook)
    for _ in range(10):
        model(torch.ones(2, 8)).sum().backward()
    if rank == size - 1:
        store.wait([f"waits {other}" for other in range(rank)])
        os.kill(os.getpid(), signal.SIGKILL)

    def at_its_end(_: object) -> None:
        Variable._execution_engine.queue_callback(lambda: store.set(f"waits {rank}", ""))

    output = model(torch.ones(2, 8))
    output.register_hook(at_its_end)
    with pytest.raises(PeerLost, match=f"rank {size - 1} "):
        output.sum().backward()


def check_peer_dies_before_a_new_group(rank: int, size: int, members: list[int]) -> None:
    """The others wait for it in the making of a group, where no operation fails."""
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank not in members:
        dist.new_group(members)
        return
    with pytest.raises(RendezvousError, match=r"rank 1 \(host .*\) died.* is needed for a new group") as caught:
        dist.new_group(members)
    assert caught.value.rank == 1
    assert caught.value.group == tuple(members)


def _interrupt_once_asleep() -> None:
    """Send this process SIGINT once its main thread has slept for 50 ms, as one that waits for a rank does."""
    state = Path(f"/proc/self/task/{os.getpid()}/stat")
    looks = 0
    while looks < 10:
        time.sleep(0.005)
        looks = looks + 1 if state.read_text().rpartition(")")[2].split()[0] == "S" else 0
    os.kill(os.getpid(), signal.SIGINT)


def _interrupt_soon() -> None:
    threading.Thread(target=_interrupt_once_asleep).start()


class Preempted(Exception):
    """What a program's own handler of a signal raises."""


def _interrupts_raise_preempted() -> None:
    def handler(*_: object) -> None:
        raise Preempted

    signal.signal(signal.SIGINT, handler)


def check_interrupt_in_backward(
    rank: int, size: int, hook: Callable[..., Any] | None, raised: type[BaseException]
) -> None:
    """It comes while DDP waits for a rank that does nothing before it has come."""
    if raised is Preempted:
        _interrupts_raise_preempted()
    store = dist.distributed_c10d._get_default_store()  # type: ignore[no-untyped-call]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    if hook is not None:
        model.register_comm_hook(None, hook)
    if rank == 1:
        store.wait(["interrupted"])
        return

    def at_its_end(_: object) -> None:
        Variable._execution_engine.queue_callback(_interrupt_soon)

    output = model(torch.ones(2, 8))
    output.register_hook(at_its_end)
    with pytest.raises(raised):
        output.sum().backward()
    store.set("interrupted", "")


def check_own_handler_in_wait(rank: int, size: int) -> None:
    store = dist.distributed_c10d._get_default_store()  # type: ignore[no-untyped-call]
    if rank == 1:
        store.wait(["interrupted"])
        return
    _interrupts_raise_preempted()
    work = dist.all_reduce(torch.ones(4), async_op=True)
    assert work is not None
    _interrupt_soon()
    with pytest.raises(Preempted):
        work.wait()
    with pytest.raises(Aborted, match="was interrupted"):
        work.wait()
    store.set("interrupted", "")


def check_interrupt_in_future(rank: int, size: int, chained: bool) -> None:
    store = dist.distributed_c10d._get_default_store()  # type: ignore[no-untyped-call]
    if rank == 1:
        store.wait(["interrupted"])
        return
    work = dist.all_reduce(torch.ones(4), async_op=True)
    assert work is not None
    future: Any = work.get_future()
    if chained:
        future = future.then(lambda done: done.value())
    _interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        future.wait()
    store.set("interrupted", "")


# What rank 0 does right while rank 1 makes a mistake that it finds before anything is sent.
_MISTAKES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "all_reduce": (
        lambda group: dist.all_reduce(torch.ones(4), group=group),
        lambda group: dist.all_reduce(torch.ones(4, dtype=torch.int16), group=group),
    ),
    "reduce": (
        lambda group: dist.reduce(torch.ones(4), 0, group=group),
        lambda group: dist.reduce(torch.ones(4, dtype=torch.int16), 0, group=group),
    ),
    "broadcast": (
        lambda group: group.broadcast(torch.ones(4), 1).wait(),
        lambda group: group.broadcast(torch.ones(4), 7),
    ),
    "all_gather": (
        lambda group: group.allgather([[torch.ones(4)] * 2], [torch.ones(4)]).wait(),
        lambda group: group.allgather([[torch.ones(4)] * 2], [torch.ones(5)]),
    ),
    "reduce_scatter": (
        lambda group: dist.reduce_scatter_single(torch.ones(2), torch.ones(4), group=group),
        lambda group: dist.reduce_scatter_single(torch.ones(2), torch.ones(5), group=group),
    ),
    "gather": (
        lambda group: dist.gather(torch.ones(4), [torch.ones(4)] * 2, 0, group=group),
        lambda group: group.gather([[torch.ones(4)]], [torch.ones(4)], 5),
    ),
    "scatter": (
        lambda group: dist.scatter(torch.ones(4), src=1, group=group),
        lambda group: dist.scatter(torch.ones(4), [torch.ones(4), torch.ones(5)], 1, group=group),
    ),
    "all_to_all": (
        lambda group: dist.all_to_all_single(torch.ones(4), torch.ones(4), [2, 2], [2, 2], group=group),
        lambda group: dist.all_to_all_single(torch.ones(4), torch.ones(4), [2, 2], [1, 2], group=group),
    ),
}


def _all_reduce_asynchronously(group: Any) -> None:
    dist.all_reduce(torch.ones(4), group=group, async_op=True).wait()  # type: ignore[union-attr]


def check_mistake_is_told(rank: int, size: int, asynchronous: bool) -> None:
    """The rank that waits hears at once what was wrong on the other; the group fails on both."""
    for name, calls in _MISTAKES.items():
        group = dist.new_group()
        waits = _all_reduce_asynchronously if asynchronous else calls[0]
        if rank == 1:
            with pytest.raises((ValueError, TypeError)):
                calls[1](group)
            with pytest.raises(Mismatch):
                dist.barrier(group)
            continue
        with pytest.raises(Mismatch, match=f"rank 1 .*raised before it began: {name} #0: (Value|Type)Error: "):
            waits(group)


def test_wrong_calls(ranks: Ranks) -> None:
    ranks(check_wrong_calls, 2)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_mismatch_names_both_sides(ranks: Ranks, asynchronous: bool) -> None:
    for message in ranks(check_mismatch, 2, fresh=True, asynchronous=asynchronous):
        assert "float32[4]" in message and "float32[5]" in message


@pytest.mark.parametrize("of_reductions", [True, False])
def test_dtypes_are_told_apart(ranks: Ranks, of_reductions: bool) -> None:
    ranks(check_dtypes_are_told_apart, 2, fresh=True, of_reductions=of_reductions)


@pytest.mark.parametrize(
    "check", [check_mismatch_in_future, check_chained_future_fails, check_different_collectives, check_abort]
)
def test_failure(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 2, fresh=True)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_mistake_on_one_rank_is_told_to_the_others(ranks: Ranks, asynchronous: bool) -> None:
    ranks(check_mistake_is_told, 2, fresh=True, asynchronous=asynchronous, timeout=1000, deadline=100)


@pytest.mark.parametrize("chained", [False, True])
def test_an_interrupt_ends_the_wait_for_a_future(ranks: Ranks, chained: bool) -> None:
    ranks(check_interrupt_in_future, 2, fresh=True, chained=chained, timeout=1000, deadline=100)


@pytest.mark.parametrize(
    ("hook", "raised"),
    [
        (None, KeyboardInterrupt),
        (None, Preempted),
        (arena_hook, KeyboardInterrupt),
        (default_hooks.allreduce_hook, KeyboardInterrupt),
    ],
)
def test_an_interrupt_ends_a_backward_pass(
    ranks: Ranks, hook: Callable[..., None] | None, raised: type[BaseException]
) -> None:
    ranks(check_interrupt_in_backward, 2, fresh=True, hook=hook, raised=raised, timeout=1000, deadline=100)


def test_what_a_handler_raises_comes_out_of_a_wait(ranks: Ranks) -> None:
    ranks(check_own_handler_in_wait, 2, fresh=True, timeout=1000, deadline=100)


@pytest.mark.parametrize("check", [check_timeout, check_own_timeout])
def test_timeout(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 2, fresh=True)


@pytest.mark.parametrize(
    "how",
    [{"hook": None}, {"hook": None, "unused": True}, {"hook": arena_hook}, {"hook": default_hooks.allreduce_hook}],
)
def test_peer_dies_in_backward(ranks: Ranks, how: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=r"rank 1 failed first:\nthe process died with exit code -9$"):
        ranks(check_peer_dies_in_backward, 2, fresh=True, **how)


@pytest.mark.parametrize("members", [[0, 1, 2], [1, 2]])
def test_peer_dies_before_a_new_group(ranks: Ranks, members: list[int]) -> None:
    """The others are told long before the timeout, whether or not rank 0 of the job is among them."""
    with pytest.raises(AssertionError, match=r"rank 1 failed first:\nthe process died with exit code -9$"):
        ranks(check_peer_dies_before_a_new_group, 3, fresh=True, timeout=3600, deadline=200, members=members)
