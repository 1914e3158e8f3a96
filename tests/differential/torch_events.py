"""What happens between the steps of a program besides calls that go well, and what must be true of it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_mismatches import WRONG
from torch_programs import Program, Step

PATIENCE = 40.0
"""Seconds that an event may take."""


def happen(step: Step, program: Program, rank: int) -> None:
    """Let an event happen to all ranks of the world. Raises AssertionError if something else comes of it than must."""
    EVENTS[step.call](step, program, rank)
    sum_over(None, program.groups[0])


def sum_over(group: Any, ranks: tuple[int, ...], count: int = 10) -> None:
    """A sum over a group, which is right."""
    tensor = torch.full((count,), float(dist.get_rank()))
    dist.all_reduce(tensor, group=group)
    assert tensor.eq(sum(ranks)).all(), f"the sum over {ranks} is {tensor}"


def begin_again(step: Step, program: Program, rank: int) -> None:
    """Destroy all groups, of which some were destroyed before, and make the world anew."""
    store, backend = dist.distributed_c10d._get_default_store(), dist.get_backend()
    if step.seed % 2:
        sum_over(dist.new_group(), program.groups[0])
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("again", store),
        rank=rank,
        world_size=program.size,
        timeout=timedelta(seconds=PATIENCE),
    )


def use_destroyed(step: Step, program: Program, rank: int) -> None:
    """Calls of a group that is destroyed raise an error that says something."""
    group: Any = dist.new_group()
    sum_over(group, program.groups[0])
    dist.destroy_process_group(group)
    tensor = torch.ones(3)
    uses: list[Callable[[], Any]] = [
        lambda: dist.all_reduce(tensor, group=group),
        lambda: group.allreduce([tensor]).wait(),
        lambda: group.broadcast([tensor], 0),
        lambda: group.barrier().wait(),
    ]
    error = refused(uses[step.seed % len(uses)])
    assert isinstance(error, (ValueError, RuntimeError)) and len(str(error)) > 10, repr(error)


def submit_from_threads(step: Step, program: Program, rank: int) -> None:
    """Two threads submit collectives on two groups, each in an order of its own."""
    part = tuple(program.groups[0][: 1 + step.seed % program.size])
    groups = [(dist.new_group(), program.groups[0]), (dist.new_group(list(part)), part)]
    errors: list[BaseException] = []

    def submit(group: Any, ranks: tuple[int, ...]) -> None:
        try:
            for number in range(4):
                sum_over(group, ranks, 1 + step.seed % 5000 * number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=submit, args=each, daemon=True) for each in groups if rank in each[1]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread did not come back"
    assert not errors, errors
    for group, ranks in groups:
        if rank in ranks:
            dist.destroy_process_group(group)


def fork(step: Step, program: Program, rank: int) -> None:
    """A forked child is refused with a sentence, or has a job of its own, and its parent goes on."""
    use, words = FORKED[step.seed % len(FORKED)]
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        try:
            told = repr(refused(use))
        except BaseException as error:
            told = f"not caught: {error!r}"
        os.write(theirs, told.encode()[:4000])
        os._exit(0)
    os.close(theirs)
    try:
        assert select.select([ours], [], [], PATIENCE)[0], "the forked child hangs"
        told = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert words in told, f"a forked child: {told or 'died'}, not {words!r}"


def spawn(step: Step, program: Program, rank: int) -> None:
    """A spawned child inherits nothing: it has a job of its own, while its parent goes on. One rank starts one."""
    if rank != step.root % program.size:
        return
    new = multiprocessing.get_context("spawn")
    ours, theirs = new.Pipe(duplex=False)
    child = new.Process(target=_spawned, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    try:
        assert ours.poll(PATIENCE), "the spawned child hangs"
        told = ours.recv_bytes().decode()
    except EOFError:
        told = "died"
    finally:
        ours.close()
        child.kill()
        child.join()
    assert told == "None", f"a spawned child: {told}"


def _spawned(answer: Connection) -> None:
    import paceline.torch  # registers the backend

    assert paceline.torch and not dist.is_initialized()
    answer.send_bytes(repr(refused(_new_job)).encode())


def _own_job() -> None:
    dist.destroy_process_group()
    _new_job()


def _new_job() -> None:
    dist.init_process_group("paceline", store=dist.HashStore(), rank=0, world_size=1)
    sum_over(None, (0,))
    dist.destroy_process_group()


_REFUSED = "this process was forked from process"
FORKED: list[tuple[Callable[[], Any], str]] = [
    (lambda: dist.all_reduce(torch.ones(3)), _REFUSED),
    (lambda: dist.all_reduce(torch.ones(3), async_op=True).wait(), _REFUSED),
    (lambda: dist.barrier(), _REFUSED),
    (lambda: dist.broadcast_object_list([None], 0), _REFUSED),
    (lambda: dist.new_group(), _REFUSED),
    (lambda: dist.destroy_process_group(), "None"),
    (_own_job, "None"),
]
"""What a forked child does, and what is then among the words of the error."""


def mismatch(step: Step, program: Program, rank: int) -> None:
    """One rank of a group calls otherwise than the others, and every one of them raises an error; none hangs."""
    if program.size == 1:
        return
    group: Any = dist.new_group(timeout=timedelta(seconds=PATIENCE))
    odd = rank == step.root % program.size
    calls = WRONG[step.seed % len(WRONG)]
    # A root may have sent all before another rank calls: it hears of it in its next call.
    error = refused(lambda: calls[odd](group, program.size)) or refused(lambda: dist.barrier(group))
    assert type(error).__name__ == "Mismatch", f"{step.seed % len(WRONG)}, {'odd' if odd else 'usual'}: {error!r}"
    dist.destroy_process_group(group)


def dispatch(step: Step, program: Program, rank: int) -> None:
    """A dispatch mode sees the operator of a call, and a tensor with a dispatch of its own may be given to one."""
    size = program.size
    calls = DISPATCHED[step.seed % len(DISPATCHED)]
    seen = Seen()  # type: ignore[no-untyped-call]
    tensor = torch.full((4,), rank + 1.0)
    given = AsyncCollectiveTensor(tensor.clone()) if step.root % 2 else tensor.clone()
    with seen if step.seed // 8 % 2 else contextlib.nullcontext():
        found = calls(given, size)
    assert torch.equal(found, calls(tensor, size)), f"by dispatch: {found}"
    assert not step.seed // 8 % 2 or any("c10d" in name for name in seen.names), f"a mode sees {seen.names}"


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operators."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def _in_place(call: Callable[[Tensor], Any]) -> Callable[[Tensor, int], Tensor]:
    def done(tensor: Tensor, size: int) -> Tensor:
        call(tensor)
        return tensor + 0

    return done


def _collected(tensor: Tensor, size: int) -> Tensor:
    rooms = [torch.empty(4) for _ in range(size)]
    dist.all_gather(rooms, tensor)
    return torch.cat(rooms)


def _stacked(tensor: Tensor, size: int) -> Tensor:
    room = torch.empty(size * 4)
    dist.all_gather_into_tensor(room, tensor)
    return room


DISPATCHED: list[Callable[[Tensor, int], Tensor]] = [
    _in_place(lambda tensor: dist.all_reduce(tensor)),
    _in_place(lambda tensor: dist.broadcast(tensor, 0)),
    _collected,
    _stacked,
]
"""Calls by which dispatch is tried; each gives the same when it is made again."""


def refused(call: Callable[[], Any]) -> Exception | None:
    """The error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


EVENTS: dict[str, Callable[[Step, Program, int], None]] = {
    "begin_again": begin_again,
    "use_destroyed": use_destroyed,
    "threads": submit_from_threads,
    "fork": fork,
    "spawn": spawn,
    "mismatch": mismatch,
    "dispatch": dispatch,
}
