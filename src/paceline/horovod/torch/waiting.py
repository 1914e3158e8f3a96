"""Waiting: for calls under way, and for the other ranks."""

from __future__ import annotations

from typing import Any

from paceline.horovod import job
from paceline.horovod.channel import Channel
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet, global_process_set


def poll(handle: int) -> bool:
    """Whether the call behind `handle` is over; `synchronize` then returns at once. ValueError for no such call."""
    return job.current().handles.poll(handle)


def synchronize(handle: int) -> Any:
    """Wait for the call behind `handle`; returns its result, or None if that was returned before.

    Raises HorovodInternalError, on all ranks, if the call failed.
    """
    return job.current().handles.synchronize(handle)


def join(device: int = -1) -> int:
    """This rank has no more data. Waits until all ranks have called it; returns the rank that was the last to.

    Until then the calls of other ranks go on: this one gives zeros to an allreduce and no rows to an allgather; a
    broadcast, alltoall or reducescatter fails. `device` is accepted and not needed.
    """
    channel = job.current().channel(job.GLOBAL)
    request = channel.coordinator.join()
    return int(Pending(channel, (), [request], lambda: _joined(channel, request.last)).result())


def _joined(channel: Channel, last: int) -> int:
    channel.next_round()
    return last


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks of the process set have called it."""
    channel = job.current().channel(process_set.process_set_id, "Barrier")
    names = [channel.name("barrier", None)]
    Pending(
        channel, names, channel.start(names, lambda: [channel.coordinator.barrier(names[0])]), lambda: None
    ).result()
