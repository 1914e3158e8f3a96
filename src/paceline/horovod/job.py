"""The job that this process is in between `init` and `shutdown`."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from paceline import timeline
from paceline.errors import CommunicationError
from paceline.horovod.channel import Channel, CompletedCalls
from paceline.horovod.handles import Handles
from paceline.horovod.rank_layout import place
from paceline.process import at_exit
from paceline.settings.settings import Settings

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator
    from paceline.group.group import Group
    from paceline.horovod.driver.worker import Worker

log = logging.getLogger("paceline")

NOT_INITIALISED = "Horovod has not been initialized; use hvd.init()."
DYNAMIC = "DYNAMIC"
"""This value of the timeline setting, in place of a file name, lets the program start and stop the timeline."""
_DRIVER_CONNECT_TIMEOUT = 60.0
"""Seconds to connect to an elastic job's driver, which listened before this process started."""
GLOBAL = 0
"""The id of the process set that holds all ranks."""


class Job:
    """The ranks of `world`, its process sets by id, and this process's handles.

    machines: the name of the machine of each rank. connect: makes the coordinator of a group; every member of the group
    calls it.
    """

    def __init__(self, world: Group, machines: Sequence[str], connect: Callable[[Group], Coordinator]) -> None:
        self.rank, self.size = world.rank, world.size
        self.place = place(world.rank, machines)
        self.handles = Handles()
        self.sets: dict[int, tuple[int, ...]] = {GLOBAL: tuple(range(world.size))}
        self.when_removed: dict[int, Callable[[], None]] = {}
        """Called once a process set is removed, or this process leaves the job; by the set's number."""
        self._world = world
        self._connect = connect
        self._groups: dict[int, Group] = {}
        self._completed = CompletedCalls()
        self._channels = {GLOBAL: Channel(connect(world), self.sets[GLOBAL], self._completed)}
        self._ids = itertools.count(1)
        self._pid = os.getpid()

    def channel(self, process_set: int | None, call: str = "The call") -> Channel:
        """Return the channel of a process set.

        Raises ValueError if there is no such set or this rank is not a member; the message begins with `call`.
        """
        channel = self._channels.get(-1 if process_set is None else process_set)
        if channel is not None:
            return channel
        if process_set not in self.sets:
            raise ValueError(f"{call}: Process set provided does not exist, or has not been registered.")
        raise ValueError(f"{call}: Rank {self.rank} is not a member of the provided process set.")

    def add(self, ranks: Sequence[int]) -> int | None:
        """Register the process set of these ascending ranks and return its id, or None if such a set already exists.

        Collective: every rank of the job calls it with the same ranks, in the same order. Raises ValueError for ranks
        that repeat or do not exist, and if other ranks add another set.
        """
        if not ranks or len(set(ranks)) != len(ranks) or not set(ranks) <= set(range(self.size)):
            raise ValueError(f"a process set needs different ranks from 0 to {self.size - 1}, got {list(ranks)}")
        self._agree(ranks)
        if tuple(ranks) in self.sets.values():
            return None
        group = self._world.split(0 if self.rank in ranks else None)
        number = next(self._ids)
        self.sets[number] = tuple(ranks)
        if group is not None:
            self._groups[number] = group
            self._channels[number] = Channel(self._connect(group), ranks, self._completed)
        return number

    def remove(self, process_set: int) -> bool:
        """Close a process set. Returns False for the global set and for a set that does not exist."""
        if process_set == GLOBAL or self.sets.pop(process_set, None) is None:
            return False
        self.when_removed.pop(process_set, lambda: None)()
        channel = self._channels.pop(process_set, None)
        if channel is not None:
            channel.coordinator.close()
            self._groups.pop(process_set).close()
        return True

    def start_timeline(self, path: Path, mark_cycles: bool = False) -> None:
        """Start to record the tensors of all ranks, after ending any timeline in progress. Only rank 0 writes the file.

        Raises OSError if the file cannot be created.
        """
        timeline.start(str(path), mark_cycles, here=self.rank == 0)

    def stop_timeline(self) -> None:
        """Finish the timeline's file. Does nothing if no timeline is in progress."""
        timeline.stop()

    def close(self) -> None:
        """Finish the timeline and leave the job.

        A forked child, such as a data loader's worker, does nothing, because the links belong to its parent.
        """
        if self._pid != os.getpid():
            return
        try:
            self.stop_timeline()
        finally:
            for process_set in list(self.sets):
                self.remove(process_set)
            self._channels.pop(GLOBAL).coordinator.close()
            self._world.close()
            self.handles.clear()

    def _agree(self, ranks: Sequence[int]) -> None:
        from paceline.coordinate import Span

        mine = np.zeros(self.size, np.uint8)
        mine[list(ranks)] = 1
        # A request, which a rank that has joined answers by giving nothing.
        request = self._channels[GLOBAL].coordinator.all_gather("process_set.add", Span.of(mine), shape=mine.shape)
        request.wait()
        joined = [rank for rank, count in enumerate(request.counts) if count == 0]
        if joined:
            raise ValueError(
                f"rank {self.rank} adds process set {list(ranks)}, but rank {joined[0]} has joined: all ranks add "
                "a set before one of them calls join()"
            )
        everyone = np.frombuffer(request.output, np.uint8).reshape(self.size, self.size)  # type: ignore[call-overload]
        for other in range(self.size):
            if not np.array_equal(everyone[other], mine):
                theirs = np.flatnonzero(everyone[other]).tolist()
                raise ValueError(f"rank {self.rank} adds process set {list(ranks)}, but rank {other} adds {theirs}")


class _ProcessState:
    """The job of this process."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.worker: Worker | None = None  # connected to an elastic job's driver for the life of this process
        self.unregister_exit: Callable[[], None] = lambda: None  # undoes the registration of `stop` at exit
        self.lock = threading.Lock()


_process = _ProcessState()


def start(comm: Sequence[int] | None, prepare: Callable[[Job], None] = lambda _: None) -> bool:
    """Join the job that the launcher's environment describes. Returns False if this process is already in a job.

    comm: the launcher's ranks that make up the job, in this order; all ranks if None or empty. prepare: called with the
    job before anything else, on all ranks. In an elastic job it is called again in the next round if a rank was lost
    meanwhile.

    Raises RendezvousError if the ranks cannot connect and ValueError for an invalid `comm`.
    """
    with _process.lock:
        if _process.job is not None:
            return False
        _process.job = _meet(comm or (), prepare)
        _process.unregister_exit = at_exit.register(stop)
        return True


def stop() -> None:
    """Leave the job. Does nothing if this process is in none."""
    with _process.lock:
        job, _process.job = _process.job, None
    if job is not None:
        _process.unregister_exit()
        job.close()


def running() -> bool:
    """Return whether this process is in a job."""
    return _process.job is not None


def current() -> Job:
    """Return the job of this process. Raises ValueError before `init` and after `shutdown`."""
    if _process.job is None:
        raise ValueError(NOT_INITIALISED)
    return _process.job


def worker() -> Worker | None:
    """Return this process's connection to the elastic driver; None before `init` and in a job that is not elastic."""
    return _process.worker


def _meet(comm: Sequence[int], prepare: Callable[[Job], None]) -> Job:
    from paceline.process.current import runtime
    from paceline.process.init import init

    seat = Settings.from_environment().elastic
    if seat is not None and comm:
        raise ValueError("an elastic job's ranks change, so that init(comm=...) cannot choose some of them")
    job = _form(init(), comm, prepare) if seat is None else _next_round(prepare)
    settings = runtime().settings
    if settings.timeline is not None and settings.timeline != DYNAMIC:
        try:
            job.start_timeline(Path(settings.timeline), bool(settings.timeline_marks))
        except OSError as error:  # the training is worth more than its timeline
            log.warning("the timeline %s is not written: %s", settings.timeline, error.strerror)
    return job


def _form(world: Group, comm: Sequence[int], prepare: Callable[[Job], None]) -> Job:
    from paceline.process.current import runtime

    try:
        group = _part(world, comm) if comm else world
        machines = [member.machine for member in runtime().membership(group.channel).members]
        job = Job(group, machines, _connect)
    except BaseException:
        world.close()
        raise
    try:
        prepare(job)
    except BaseException:
        job.close()
        raise
    return job


def _next_round(prepare: Callable[[Job], None]) -> Job:
    """Return the job of the next round whose ranks can connect. Raises RendezvousError if the driver is gone."""
    from paceline.horovod.driver.worker import Worker
    from paceline.process.current import running
    from paceline.process.init import join
    from paceline.rendezvous.deadline import Deadline
    from paceline.settings.limits import Limits

    if _process.worker is None:
        _process.worker = Worker(Settings.from_environment(), _DRIVER_CONNECT_TIMEOUT)
    problem = ""
    while True:
        place = _process.worker.next_round(problem)
        os.environ.update(place.environment())
        before = running()
        if before is not None:
            before.close()  # closes its links too, some of which lead to ranks that are gone
        settings = Settings.from_environment()
        deadline = Deadline(Limits.of(settings).meeting)
        try:
            return _form(join(_process.worker.store(), settings, deadline), (), prepare)
        except CommunicationError as error:
            problem = str(error)
            log.info("round %d: %s", place.number, problem)


def _part(world: Group, comm: Sequence[int]) -> Group:
    ranks = list(comm)
    if len(set(ranks)) != len(ranks) or not set(ranks) <= set(range(world.size)):
        raise ValueError(f"comm should hold different ranks from 0 to {world.size - 1}, got {ranks}")
    _agree_on_parts(world, ranks)
    member = world.rank in ranks
    group = world.split(min(ranks) if member else None, ranks.index(world.rank) if member else None)
    if group is None:
        raise ValueError(f"rank {world.rank} is not among the ranks {ranks} that init(comm=...) was called with")
    return group


def _agree_on_parts(world: Group, ranks: Sequence[int]) -> None:
    """Raise ValueError, on all ranks, unless the members of each part were called with the same ranks."""
    mine = np.full(world.size, -1, np.int64)
    mine[: len(ranks)] = ranks
    everyone = np.empty((world.size, world.size), np.int64)
    world.all_gather(everyone, mine)
    parts = [[int(rank) for rank in row if rank >= 0] for row in everyone]
    for rank, part in enumerate(parts):
        for other in part if rank in part else ():
            if parts[other] != part:
                raise ValueError(
                    f"rank {rank} was called with init(comm={part}), but rank {other} of it with {parts[other]}"
                )


def _connect(group: Group) -> Coordinator:
    from paceline.coordinate import coordinator

    return coordinator(group)
