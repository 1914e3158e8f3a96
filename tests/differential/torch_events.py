"""What happens between the steps of a program besides calls that go well, and what must be true of it."""

from __future__ import annotations

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


def refused(call: Callable[[], Any]) -> Exception | None:
    """The error that a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def _reduced(tensor: Tensor, op: str = "SUM", wait: bool = False) -> Callable[[Any, int], Any]:
    def call(group: Any, size: int) -> Any:
        work = dist.all_reduce(tensor.clone(), getattr(dist.ReduceOp, op), group, async_op=wait)
        return work.wait() if work is not None else None

    return call


def _sent(count: int, root: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.broadcast(torch.ones(count), root, group)


def _gathered(count: int, dtype: torch.dtype = torch.float32) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.all_gather(
        [torch.ones(count, dtype=dtype) for _ in range(size)], torch.ones(count, dtype=dtype), group
    )


def _scattered(count: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.reduce_scatter(
        torch.ones(count), [torch.ones(count) for _ in range(size)], group=group
    )


def _exchanged(count: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.all_to_all_single(torch.ones(count * size), torch.ones(count * size), group=group)


def _reduced_to(root: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.reduce(torch.ones(5), root, group=group)


WRONG: list[tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]] = [
    (_reduced(torch.ones(5)), _reduced(torch.ones(6))),
    (_reduced(torch.ones(50_000)), _reduced(torch.ones(40_000))),
    (_reduced(torch.ones(5)), _reduced(torch.ones(5).double())),
    (_reduced(torch.ones(6)), _reduced(torch.ones(3).double())),
    (_reduced(torch.ones(5)), _reduced(torch.ones(5), "MAX")),
    (_reduced(torch.ones(5), wait=True), _reduced(torch.ones(6), wait=True)),
    (_reduced(torch.ones(5)), _sent(5, 0)),
    (_reduced(torch.ones(5)), lambda group, size: dist.barrier(group)),
    (_sent(5, 0), _sent(6, 0)),
    (_sent(5, 0), _sent(5, 1)),
    (_sent(50_000, 1), _sent(50_000, 0)),
    (_reduced_to(0), _reduced_to(1)),
    (_gathered(4), _gathered(5)),
    (_gathered(4), _gathered(4, torch.float64)),
    (_gathered(4), _reduced(torch.ones(4))),
    (_scattered(4), _scattered(5)),
    (_exchanged(4), _exchanged(5)),
    (_exchanged(4), _gathered(4)),
]
"""What the usual ranks call, and what the odd one does."""

EVENTS: dict[str, Callable[[Step, Program, int], None]] = {
    "begin_again": begin_again,
    "use_destroyed": use_destroyed,
    "threads": submit_from_threads,
    "fork": fork,
    "spawn": spawn,
    "mismatch": mismatch,
}
