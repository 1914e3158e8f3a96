"""What a process tells of itself: its groups by name, its place in the job, and what failed first."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

from paceline.errors import CommunicationError
from paceline.monitor.source_line import users_line
from paceline.rendezvous import Member
from paceline.settings.settings import Settings
from paceline.trace import dump as trace


class FlightRecorder:
    """Of the process with this name. Not thread-safe."""

    def __init__(self, process: str, settings: Settings) -> None:
        self._process, self._settings = process, settings
        self._world: dict[str, int] = {}  # the ranks of the first group, by process
        self._members: dict[str, Member] = {}  # by what peers call them
        self._failed: dict[int, str] = {}  # what failed each group, by channel
        self.groups: dict[int, trace.Group] = {}
        """By channel, with their ranks in the first group."""

    def add_group(self, channel: int, members: Sequence[Member]) -> None:
        """A group was made; the first has all ranks of the job."""
        if not self._world:
            self._world = {member.process: member.rank for member in members}
        for member in members:
            self._members.setdefault(str(member), member)
        ranks = tuple(map(self._rank_of, members))
        self.groups[channel] = trace.Group(f"group {len(self.groups)}", ranks)

    def complete(self, error: CommunicationError, channel: int, culprit: str) -> None:
        """Add what is known here to an error of this group. culprit: what peers call the rank that is to blame."""
        error.group = self.groups[channel].ranks
        if member := self._members.get(culprit):
            error.rank, error.host, error.pid = self._rank_of(member), member.host, member.pid

    def locate(self, who: str) -> tuple[int, int] | None:
        """The rank in the job and the process id of the rank that peers call so; None where it is not known."""
        member = self._members.get(who)
        return None if member is None else (self._rank_of(member), member.pid)

    def add_failure(self, channel: int, message: str) -> bool:
        """What failed a group, and where the user's program was; False if this group had failed already."""
        if channel in self._failed:
            return False
        line = users_line(threading.get_ident())
        self._failed[channel] = f"{message}; raised at {line}" if line else message
        return True

    def dump(self, events: list[Any], requests: Sequence[Any]) -> None:
        """Write the trace where PACELINE_TRACE says, if it does and there was a group."""
        if self._settings.trace and self._world:
            trace.dump(
                events,
                self._settings,
                *self._place(),
                groups=dict(self.groups),
                requests=requests,
                reason=self._first_failure(),
            )

    def encoded(self, events: list[Any], requests: Sequence[Any]) -> bytes:
        """The trace as of now, for somebody who asks."""
        me, size = self._place()
        return trace.encode(
            me,
            socket.gethostname(),
            os.getpid(),
            events,
            size=size,
            groups=dict(self.groups),
            requests=requests,
            reason=self._first_failure(),
            line=users_line(),
        ).encode()

    def _rank_of(self, member: Member) -> int:
        return self._world.get(member.process, member.rank)

    def _place(self) -> tuple[int, int]:
        return self._world[self._process], len(self._world)

    def _first_failure(self) -> str:
        return next(iter(self._failed.values()), "")
