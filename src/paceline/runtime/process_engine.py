"""The engine of a process: made for its first group, given the links of every further one."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from paceline._engine import Engine
from paceline.cpu import budget, pinning
from paceline.cpu.partition import Partition
from paceline.errors import refusal
from paceline.formats.numbers import in_full
from paceline.observe.trace.event import Row
from paceline.rendezvous import Meeting, Member
from paceline.runtime import cpu_sharing
from paceline.runtime.engine_thread import EngineThread
from paceline.runtime.membership import Membership
from paceline.runtime.native import EngineModule
from paceline.runtime.shared_memory import SharedMemory
from paceline.settings.settings import Settings

log = logging.getLogger("paceline")


class ProcessEngine:
    """The engine of this process, which exists from the first group on.

    Only when the ranks have met is it known how many of them share this machine's CPUs, and so how long the engine may
    spin. `cpus` are those that this process may use. Not thread-safe.
    """

    def __init__(self, native: EngineModule, memory: SharedMemory, cpus: budget.CpuBudget, settings: Settings) -> None:
        self._native, self._memory, self._cpus, self._settings = native, memory, cpus, settings
        self.thread: EngineThread | None = None
        """The engine's thread; None before the first group."""
        self.spin: budget.SpinBudget | None = None
        """The engine's spin time, and the reason for it; None before the first group."""
        self.partition: Partition | None = None
        """The CPUs of engine, input workers and compute, and why; None before the first group."""

    @property
    def native(self) -> Engine:
        """The C++ engine, once there is one."""
        assert self.thread is not None, "there is no engine before the first group"
        return self.thread.engine

    @property
    def linked(self) -> Collection[str]:
        """The names of the processes that this one has links to."""
        return self.thread.links if self.thread is not None else ()

    def fate(self, process: str) -> tuple[str, str]:
        """The fate of a process that this one has a link to, and whom peers blame; "" while it is there."""
        handle = self.thread.links.get(process) if self.thread is not None else None
        return ("", "") if self.thread is None or handle is None else self.thread.engine.fate(handle)

    def link(self, meeting: Meeting, rank: int) -> Membership:
        """Take over the new links of a meeting; return who is in the group that met."""
        if self.thread is None:
            self.thread = self._start(meeting.members, rank)
        self.thread.adopt(meeting.members, meeting.links)
        handles = self.thread.links
        return Membership(
            rank,
            meeting.members,
            tuple(-1 if member.rank == rank else handles[member.process] for member in meeting.members),
        )

    def events(self, after: int = 0) -> Sequence[Row]:
        """This process's last operations with ids above `after`, oldest first; see `paceline.observe.trace.event`."""
        return self.thread.engine.events(after) if self.thread is not None else []

    def clocks(self) -> Sequence[tuple[str, int, int]]:
        """The ns by which the clocks of ranks on other machines are ahead; see `paceline._engine.Engine.clocks`."""
        return self.thread.engine.clocks() if self.thread is not None else []

    def exposed_ns(self) -> int:
        """The nanoseconds that callers have waited in the engine so far."""
        return self.thread.engine.exposed_ns() if self.thread is not None else 0

    def close(self) -> None:
        """Say goodbye to the peers, end the thread, and give the threads that compute their CPUs back."""
        try:
            if self.thread is not None:
                self.thread.close()
        finally:
            if self.partition is not None:
                pinning.release_compute(self.partition, self._cpus.affinity)

    def _start(self, members: Sequence[Member], rank: int) -> EngineThread:
        me, mine, settings = members[rank], self._cpus, self._settings
        self.partition = cpu_sharing.divide_cores(members, me, mine, settings)
        self.spin = cpu_sharing.spin_budget(members, me, mine, settings)
        log.info("%s spins %s us while it waits: %s", me, in_full(self.spin.microseconds), self.spin.reason)
        preferred_cpu = cpu_sharing.preferred_cpu(members, me, mine, settings)
        try:
            engine = self._native.Engine(
                self._memory.arena, self.spin.microseconds, str(me), -1 if preferred_cpu is None else preferred_cpu
            )
        except RuntimeError as error:
            raise refusal(f"this process gets no engine ({error}): the sandbox or the limits must allow it") from None
        return EngineThread(engine, self.partition.parts.engine)
