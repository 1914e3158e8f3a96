"""The account that a process gives of itself: its groups by name, its place in the job, and what failed first."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from paceline.errors import CommunicationError, RendezvousError
from paceline.formats.files import folder_hindrance
from paceline.host_name import host_name
from paceline.monitor import failure_report
from paceline.monitor.source_line import users_line
from paceline.observe.trace import dump as trace
from paceline.observe.trace.clocks import Clocks
from paceline.observe.trace.event import Event, Row
from paceline.observe.trace.request import Request
from paceline.rendezvous import Member
from paceline.settings.settings import Settings

log = logging.getLogger("paceline")

_CLOSED_KEPT = 1024
"""Groups that were closed and are remembered."""
_CHANNEL = Event._fields.index("channel")


class FlightRecorder:
    """Records what the process with the name `process` would be asked after a failure. Thread-safe.

    events: the engine's last operations. requests: the last requests of the process's coordinators. clocks: see
    `Engine.clocks`.
    """

    def __init__(
        self,
        process: str,
        settings: Settings,
        events: Callable[[], Sequence[Row]],
        requests: Callable[[], Sequence[Request]],
        clocks: Callable[[], Sequence[tuple[str, int, int]]],
    ) -> None:
        self._process, self._settings = process, settings
        self._events, self._requests, self._clocks = events, requests, clocks
        self._lock = threading.Lock()
        self._world: dict[str, int] = {}  # the ranks of the first group, by process
        self._members: dict[str, Member] = {}  # by what peers call them, also as a rank of a group
        self._linked: dict[str, Member] = {}  # by process: the rank that it was when this process was linked to it
        self._failed: set[int] = set()  # the channels of groups that failed
        self._first_failure = ""
        self._made = 0
        self._closed: deque[int] = deque()  # the channels of closed groups, the oldest first
        self._stopped = False
        self._writing = threading.Lock()
        self.writes = bool(settings.trace)
        """True if the trace is written to PACELINE_TRACE."""
        self.groups: dict[int, trace.Group] = {}
        """The groups of this process, by channel, with their ranks in the first one; of those closed the last ones."""

    def add_group(self, channel: int, members: Sequence[Member]) -> None:
        """Note a group that was made; the first has all ranks of the job."""
        with self._lock:
            if not self._world:
                self._check_folder()
                self._world = {member.process: member.rank for member in members}
            for number, member in enumerate(members):
                self._members.setdefault(str(member), member)
                known = self._linked.setdefault(member.process, member)
                self._members.setdefault(f"group rank {number} = {known}", known)
            ranks = tuple(map(self._rank_of, members))
            self.groups[channel] = trace.Group(f"group {self._made}", ranks)
            self._made += 1

    def close_group(self, channel: int) -> None:
        """Note that a group was closed: it is told of for as long as events may name it."""
        with self._lock:
            self._closed.append(channel)
            while len(self._closed) > _CLOSED_KEPT:
                oldest = self._closed.popleft()
                self.groups.pop(oldest, None)
                self._failed.discard(oldest)

    def failed(self, channel: int, error: CommunicationError, culprit: str, alone: bool) -> None:
        """Note that an operation is about to raise `error`, and tell the error what is known here.

        culprit: what peers call the rank that is to blame. alone: whether the operation's group goes on. If it does
        not, the trace is written where PACELINE_TRACE says, for this process may not live to write it later, and the
        launcher is told.
        """
        with self._lock:
            if group := self.groups.get(channel):
                error.group = group.ranks
            if member := self._members.get(culprit):
                error.rank, error.host, error.pid = self._rank_of(member), member.host, member.pid
            if alone or self._stopped or channel in self._failed:
                return
            line = users_line(threading.get_ident())
            self._failed.add(channel)
            self._first_failure = self._first_failure or (f"{error}; raised at {line}" if line else str(error))
        self.dump()
        if self._settings.collector is not None:
            failure_report.send(self._settings.collector, self._place()[0], error)

    def place(self, error: RendezvousError, size: int, members: Sequence[Member] = ()) -> None:
        """Tell the error of a meeting of `size` ranks what their numbers in the job are.

        The ranks of a later group have numbers of their own, so the one to blame is found by its host and pid, or among
        the `members` of the group, where they are known beforehand.
        """
        with self._lock:
            if not self._world:
                error.group = tuple(range(size))
                return
            error.group = tuple(map(self._rank_of, members)) or error.group
            known = {(member.host, member.pid): member for member in self._members.values()}
            blamed = known.get((error.host or "", error.pid or 0))
            if blamed is None and error.rank is not None and error.rank < len(members):
                blamed = members[error.rank]
            error.rank = None if blamed is None else self._rank_of(blamed)
            if blamed is not None:
                error.host, error.pid = blamed.host, blamed.pid

    def member_called(self, who: str) -> Member | None:
        """The rank that peers call so; None where it is not known."""
        return self._members.get(who)

    @property
    def rank(self) -> int | None:
        """The number of this process in the job; None before its first group."""
        return self._world.get(self._process)

    def stop(self) -> None:
        """Record no further failure: what fails from now on does so because the runtime closes."""
        with self._lock:
            self._stopped = True

    def locate(self, who: str) -> tuple[int, int] | None:
        """The rank in the job and the process id of the rank that peers call so; None where it is not known."""
        member = self._members.get(who)
        return None if member is None else (self._rank_of(member), member.pid)

    def clocks(self) -> Clocks:
        """The bounds that this process has of other machines' clocks."""
        told = self._clocks()
        with self._lock:
            known = [(self._members[who].machine, least, most) for who, least, most in told if who in self._members]
            own = self._linked.get(self._process)
        ahead: dict[str, tuple[int, int]] = {}
        for machine, least, most in known:  # of the ranks of a machine, the one that tells it best
            before = ahead.get(machine)
            if before is None or most - least < before[1] - before[0]:
                ahead[machine] = least, most
        return Clocks(own.machine if own is not None else "", ahead)

    def dump(self) -> None:
        """Write the trace where PACELINE_TRACE says, if it says so and there was a group."""
        if not self.writes or not self._world:
            return
        with self._writing:  # or an older one would be written last
            events, groups = self._kept()
            trace.dump(
                events,
                self._settings,
                *self._place(),
                groups=groups,
                requests=self._requests(),
                reason=self._first_failure,
                clocks=self.clocks(),
            )

    def _check_folder(self) -> None:
        """Tell at the beginning of the job if its trace cannot be written."""
        folder = self._settings.trace
        why = folder_hindrance(Path(folder)) if folder else ""
        if why:
            self.writes = False
            if self._settings.local_rank == 0:
                log.warning("the job runs without a trace here: cannot write in PACELINE_TRACE=%s: %s", folder, why)

    def encoded(self) -> bytes:
        """The trace as of now, for `paceline trace`."""
        me, size = self._place()
        events, groups = self._kept()
        return trace.encode(
            me,
            host_name(),
            os.getpid(),
            events,
            size=size,
            groups=groups,
            requests=self._requests(),
            reason=self._first_failure,
            line=users_line(),
            clocks=self.clocks(),
        ).encode()

    def _kept(self) -> tuple[list[Row], dict[int, trace.Group]]:
        """The last operations, but for those of groups that are forgotten; and the groups."""
        rows = self._events()
        with self._lock:
            groups = dict(self.groups)
        return [row for row in rows if row[_CHANNEL] in groups], groups

    def _rank_of(self, member: Member) -> int:
        return self._world.get(member.process, member.rank)

    def _place(self) -> tuple[int, int]:
        return self._world[self._process], len(self._world)
