"""The job that this process is in, between `init` and `shutdown`."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline import timeline
from paceline.errors import CommunicationError
from paceline.horovod.channel import Channel, Seen
from paceline.horovod.handles import Handles
from paceline.horovod.rank_layout import place
from paceline.runtime import at_exit
from paceline.settings.settings import Settings

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator
    from paceline.group.group import Group
    from paceline.horovod.driver.worker import Worker

log = logging.getLogger("paceline")

NOT_INITIALISED = "Horovod has not been initialized; use hvd.init()."
DYNAMIC = "DYNAMIC"
"""In place of the timeline's file: one that the program starts and stops."""
_TO_DRIVER = 60.0
"""Seconds to reach an elastic job's driver, which was there before this process."""
GLOBAL = 0
"""The id of the process set of all ranks."""


class Job:
    """The ranks of `world`, its process sets by their ids, and this process's handles.

    machines: where each rank is. connect: makes the coordinator of a group; every member calls it.
    """

    def __init__(self, world: Group, machines: Sequence[str], connect: Callable[[Group], Coordinator]) -> None:
        self.rank, self.size = world.rank, world.size
        self.place = place(world.rank, machines)
        self.handles = Handles()
        self.sets: dict[int, tuple[int, ...]] = {GLOBAL: tuple(range(world.size))}
        self._world = world
        self._connect = connect
        self._groups: dict[int, Group] = {}
        self._seen = Seen()
        self._channels = {GLOBAL: Channel(connect(world), self.sets[GLOBAL], self._seen)}
        self._ids = itertools.count(1)
        self._pid = os.getpid()

    def channel(self, process_set: int | None, call: str = "The call") -> Channel:
        """The channel of a process set. ValueError, beginning with `call`, if there is none or we are no member."""
        channel = self._channels.get(-1 if process_set is None else process_set)
        if channel is not None:
            return channel
        if process_set not in self.sets:
            raise ValueError(f"{call}: Process set provided does not exist, or has not been registered.")
        raise ValueError(f"{call}: Rank {self.rank} is not a member of the provided process set.")

    def add(self, ranks: Sequence[int]) -> int | None:
        """Register the process set of these ascending ranks; returns its id, None if there is such a set already.

        Collective: every rank of the job calls it, with the same ranks, in the same order. ValueError otherwise.
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
            self._channels[number] = Channel(self._connect(group), ranks, self._seen)
        return number

    def remove(self, process_set: int) -> bool:
        """Close a process set. False for the global one, and where there is no such set."""
        if process_set == GLOBAL or self.sets.pop(process_set, None) is None:
            return False
        channel = self._channels.pop(process_set, None)
        if channel is not None:
            channel.coordinator.close()
            self._groups.pop(process_set).close()
        return True

    def start_timeline(self, path: Path, mark_cycles: bool = False) -> None:
        """Begin to record what happens to tensors of all ranks; one that is under way ends. Rank 0 alone writes."""
        timeline.start(str(path), mark_cycles, here=self.rank == 0)

    def stop_timeline(self) -> None:
        """Finish the file, if a timeline is under way."""
        timeline.stop()

    def close(self) -> None:
        """Write the timeline and leave. A forked child, a data loader's worker say, leaves the links to its parent."""
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
        mine = np.zeros(self.size, np.uint8)
        mine[list(ranks)] = 1
        everyone = np.empty((self.size, self.size), np.uint8)
        self._world.all_gather(everyone, mine)
        for other in range(self.size):
            if not np.array_equal(everyone[other], mine):
                theirs = np.flatnonzero(everyone[other]).tolist()
                raise ValueError(f"rank {self.rank} adds process set {list(ranks)}, but rank {other} adds {theirs}")


class _Home:
    """Where this process's job is kept."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.worker: Worker | None = None  # of an elastic job's driver, for the life of this process
        self.stay: Callable[[], None] = lambda: None  # takes back that `stop` is called at exit
        self.lock = threading.Lock()


_home = _Home()


def start(comm: Sequence[int] | None, prepare: Callable[[Job], None] = lambda _: None) -> bool:
    """Join the job that the launcher's environment tells of; False if this process is in it already.

    comm: ranks of the launcher that make up the job, in this order; None or empty: all. prepare: what all ranks do with
    it before anything else; in an elastic job again in the next round, if a rank is lost meanwhile.
    """
    with _home.lock:
        if _home.job is not None:
            return False
        _home.job = _meet(comm or (), prepare)
        _home.stay = at_exit.register(stop)
        return True


def stop() -> None:
    """Leave the job; nothing happens if this process is in none."""
    with _home.lock:
        job, _home.job = _home.job, None
    if job is not None:
        _home.stay()
        job.close()


def running() -> bool:
    return _home.job is not None


def current() -> Job:
    """The job. ValueError before `init` and after `shutdown`."""
    if _home.job is None:
        raise ValueError(NOT_INITIALISED)
    return _home.job


def worker() -> Worker | None:
    """This process as an elastic job's worker; None where the job is not elastic, and before `init`."""
    return _home.worker


def _meet(comm: Sequence[int], prepare: Callable[[Job], None]) -> Job:
    from paceline.runtime.init import init
    from paceline.runtime.process import runtime

    seat = Settings.from_environment().elastic
    if seat is not None and comm:
        raise ValueError("an elastic job's ranks change, so that init(comm=...) cannot choose some of them")
    job = _form(init(), comm, prepare) if seat is None else _next_round(prepare)
    settings = runtime().settings
    if settings.timeline is not None and settings.timeline != DYNAMIC:
        job.start_timeline(Path(settings.timeline), bool(settings.timeline_marks))
    return job


def _form(world: Group, comm: Sequence[int], prepare: Callable[[Job], None]) -> Job:
    from paceline.runtime.process import runtime

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
    """The job of the next round whose ranks can meet. Raises RendezvousError if the driver is gone."""
    from paceline.horovod.driver.worker import Worker
    from paceline.runtime.init import join
    from paceline.runtime.process import running

    if _home.worker is None:
        _home.worker = Worker(Settings.from_environment(), _TO_DRIVER)
    problem = ""
    while True:
        place = _home.worker.next_round(problem)
        os.environ.update(place.environment())
        before = running()
        if before is not None:
            before.close()  # with its links, of which some lead to nobody
        try:
            return _form(join(_home.worker.store(), Settings.from_environment()), (), prepare)
        except CommunicationError as error:
            problem = str(error)
            log.info("round %d: %s", place.number, problem)


def _part(world: Group, comm: Sequence[int]) -> Group:
    ranks = list(comm)
    if len(set(ranks)) != len(ranks) or not set(ranks) <= set(range(world.size)):
        raise ValueError(f"comm should hold different ranks from 0 to {world.size - 1}, got {ranks}")
    member = world.rank in ranks
    group = world.split(0 if member else None, ranks.index(world.rank) if member else None)
    if group is None:
        raise ValueError(f"rank {world.rank} is not among the ranks {ranks} that init(comm=...) was called with")
    return group


def _connect(group: Group) -> Any:
    from paceline.coordinate import coordinator

    return coordinator(group)
