"""Waits for calls in flight and for the other ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from paceline.horovod import job
from paceline.horovod.channel import Channel
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet, global_process_set

T = TypeVar("T")


def poll(handle: int) -> bool:
    """Return whether the call behind `handle` has ended, so that `synchronize` returns at once.

    Raises ValueError for a handle that is unknown or was already synchronized.
    """
    return job.current().handles.poll(handle)


def synchronize(handle: int) -> Any:
    """Wait for the call behind `handle` and return its result, or None if it was returned before.

    Raises HorovodInternalError, on all ranks, if the call failed.
    """
    return job.current().handles.synchronize(handle)


def synchronize_all(handles: Iterable[int]) -> list[Any]:
    """Wait for all these calls and return their results.

    Raises HorovodInternalError if one failed or the job has ended meanwhile, once all are over.
    """
    return finish_all([partial(taken, handle) for handle in handles])


def finish_all(finishes: Iterable[Callable[[], T]]) -> list[T]:
    """Call these functions, each of which waits for a call; once all have returned, raise the first error of one."""
    results: list[T] = []
    failed: Exception | None = None
    for finish in finishes:
        try:
            results.append(finish())
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return results


def taken(handle: int) -> Any:
    """Return what `synchronize` does, of a call whose result nobody has taken yet.

    Raises HorovodInternalError also if the call went with its job.
    """
    result = synchronize(handle)
    if result is None:
        raise HorovodInternalError("the call cannot end any more: its job was shut down while it was under way")
    return result


def join(device: int = -1) -> int:
    """Announce that this rank has no more data, and wait until all ranks have done so. Returns the last rank to join.

    Meanwhile the calls of other ranks continue: this rank contributes zeros to an allreduce and no rows to an
    allgather; a broadcast, alltoall or reducescatter fails. `device` is accepted and ignored. Raises
    HorovodInternalError if the wait fails.
    """
    channel = job.current().channel(job.GLOBAL)
    request = channel.join()
    return int(Pending(channel, (), [request], lambda: _joined(channel, request.last)).result())


def _joined(channel: Channel, last: int) -> int:
    channel.next_round()
    return last


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks of the process set have called it. Raises HorovodInternalError if the wait fails."""
    channel = job.current().channel(process_set.process_set_id, "Barrier")
    names = [channel.name("barrier", None)]
    Pending(
        channel, names, channel.start(names, lambda coordinator: [coordinator.barrier(names[0])]), lambda: None
    ).result()
