"""What a process has of the engine: one engine, its threads, the links to other processes, the groups.

Links are between processes, so every group of a process shares them; that is why there is one runtime per
process, made on first use by `paceline.runtime.process.runtime()`. Everything it needs is passed in, so a test makes
its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from paceline.cpu import budget, pinning
from paceline.cpu.partition import Partition
from paceline.errors import CommunicationError
from paceline.group.host import Ending, Plans
from paceline.monitor.monitor import Monitor
from paceline.observe.annotations import Annotations
from paceline.rendezvous import Meeting, Process, Store, meet, new_process_name, this_machine
from paceline.runtime import cpu_sharing
from paceline.runtime.engine_thread import EngineThread
from paceline.runtime.flight_recorder import FlightRecorder
from paceline.runtime.groups import Groups
from paceline.runtime.in_flight import InFlight
from paceline.runtime.membership import Membership
from paceline.runtime.native import Arena, EngineModule
from paceline.settings.settings import Settings
from paceline.version import VERSION

if TYPE_CHECKING:
    from paceline.adapt.replanner import Measure, Replanner
    from paceline.observe.observer import Source
    from paceline.topology.discover import Placement
    from paceline.topology.measured import Measured

log = logging.getLogger("paceline")


class Runtime:
    """Owns the engine of this process. Thread-safe; groups are made one at a time."""

    def __init__(self, settings: Settings, native: EngineModule, plans: Plans) -> None:
        self.settings = settings
        self._native = native
        self._groups = Groups(settings, plans)
        self._process = Process(
            new_process_name(), this_machine(settings.machine), budget.available(), VERSION, self._groups.network
        )
        self._pid = os.getpid()
        self._arena: Arena | None = _arena(native)
        self._meeting = threading.Lock()  # held through a whole meeting; the other only for moments
        self._lock = threading.Lock()
        self._engine_thread: EngineThread | None = None  # from the first meeting on
        self._used: set[str] = set()
        self._recorder = FlightRecorder(self._process.name, settings)
        self._monitor: Monitor | None = None
        self._in_flight = InFlight()
        self._closed = False
        self.annotations = Annotations(self._waited_inside)
        """What others see of this process beside what the engine knows."""
        self.spin: budget.SpinBudget | None = None
        """How long the engine spins, and why; known after the first group was made."""
        self.partition: Partition | None = None
        """The CPUs of engine, input workers and compute, and why; known after the first group was made."""

    def group(
        self,
        store: Store | None,
        rank: int,
        size: int,
        timeout: float,
        plans: Plans | None = None,
        *,
        meeting: float | None = None,
        place: str = "",
    ) -> Any:
        """Meet the other ranks of a new group through `store`, and make the `_engine.Group`.

        Collective: all processes make their groups in the same order. `timeout` is the seconds for every collective,
        `meeting` those for the meeting (default: as many). `place` says where the store is. Raises RendezvousError.
        """
        self._check()
        with self._meeting:
            met = self._meet(store, rank, size, timeout if meeting is None else meeting, place)
            first = self._engine_thread is None
            with self._lock:
                membership = self._link(met, rank)
                native = self._make(met.channel, membership, timeout, plans)
            if plans is None and not membership.one_machine:
                with self.annotations.internal.span(native.channel, lambda: native.sequence):
                    self._groups.survey(native, self._measure(membership, timeout), first)
            self._begin_monitor(met.channel, timeout)
            return self._kept(native, membership, timeout, plans)

    def subgroup(
        self, parent: int, ranks: Sequence[int], channel: int, timeout: float, plans: Plans | None = None
    ) -> Any:
        """A group of some ranks of the group with channel `parent`, in that order; needs no meeting.

        All its members must pass the same `ranks` and the same new random 63-bit `channel`. Returns a
        `_engine.Group`.
        """
        self._check()
        with self._lock:
            membership = self.membership(parent).part(ranks)
            return self._kept(self._make(channel, membership, timeout, plans), membership, timeout, plans)

    def membership(self, channel: int) -> Membership:
        """Who is in the group with this channel. CommunicationError if there is none."""
        return self._groups.membership(channel)

    def replanner(self, native: Any, timeout: float) -> Replanner | None:
        """What keeps the plans of this group to its network; None on one machine, and where an algorithm was asked for.

        timeout: seconds for each message while links are measured.
        """
        return self._groups.replanner(native, self._measure(self.membership(native.channel), timeout))

    def forget(self, channel: int) -> None:
        """The group with this channel was closed."""
        self._groups.forget(channel)

    def notify(self, operation: int, callback: Callable[[], None]) -> None:
        """Call `callback` once when this NOTIFY operation has finished, well or not.

        It runs on the serve thread, or right here if the operation has been reported already.
        """
        self._check()
        assert self._engine_thread is not None
        self._engine_thread.notify(operation, callback)

    def dropped(self, operation: Ending) -> None:
        """Nobody holds this operation any more: what it uses lives on here until it is over."""
        if self._pid == os.getpid():
            self._in_flight.add(operation)

    def close(self) -> None:
        """Say goodbye to the peers and stop the threads; call back whoever still waits. May be called again."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            engine_thread, monitor = self._engine_thread, self._monitor
            self._groups.clear()
        try:
            if monitor is not None:
                monitor.close()
        finally:
            if engine_thread is not None:
                engine_thread.close()
            if self.partition is not None:
                pinning.release_compute(self.partition, self._process.cpus.affinity)
            self._arena = None
            self._dump()

    def allocate(self, size: int) -> Any:
        """`size` bytes that the peers on this machine see, as a buffer; they outlive this runtime.

        Raises MemoryError if there is no room, CommunicationError if the runtime is closed.
        """
        try:
            return self._shared_memory().allocate(size)
        except MemoryError:
            raise MemoryError(
                f"no room for {size} bytes in this process's arena, which is as large as memory"
            ) from None

    def input_workers(self, then: Callable[[int], object] | None = None) -> pinning.InputWorkers:
        """What an input worker calls first, see `paceline.worker_init`. CommunicationError before the first group."""
        self._check()
        if self.partition is None:
            raise CommunicationError(
                "which CPUs input workers get is known once the ranks have met: "
                "join the job (paceline.init, init_process_group) before worker_init"
            )
        return pinning.InputWorkers(self.partition.parts.input, then)

    def events(self) -> list[Any]:
        """The event ring: this process's last operations, oldest first (see `paceline.trace.event`)."""
        return self._engine_thread.engine.events() if self._engine_thread is not None else []

    @property
    def plans(self) -> Plans:
        """How groups are planned where nobody says otherwise."""
        return self._groups.plans

    @property
    def monitor(self) -> Monitor | None:
        """From where others see this rank; None before its first group."""
        return self._monitor

    def show(self, channel: int, coordinator: Source) -> None:
        """Let others see a coordinator. channel: of the group that carries its data."""
        if self._monitor is not None:
            self._monitor.coordinators.show(channel, coordinator)

    def hide(self, channel: int) -> None:
        """The coordinator on this channel closes."""
        if self._monitor is not None:
            self._monitor.coordinators.hide(channel)

    @property
    def usable(self) -> bool:
        """Whether groups can be made: not closed, and not inherited by a fork."""
        return not self._closed and self._pid == os.getpid()

    def _shared_memory(self) -> Arena:
        self._check()
        assert self._arena is not None
        return self._arena

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise CommunicationError(
                f"this process was forked from process {self._pid}, whose Paceline links it cannot use: "
                "communicate in the parent, or start workers with the spawn method"
            )
        if self._closed:
            raise CommunicationError("Paceline was shut down in this process")

    def _meet(self, store: Store | None, rank: int, size: int, seconds: float, place: str) -> Meeting:
        return meet(
            store,
            rank,
            size,
            seconds,
            process=self._process,
            settings=self.settings,
            native=self._native,
            arena=self._shared_memory().descriptor,
            linked=self._engine_thread.links if self._engine_thread is not None else (),
            used=self._used,
            check=self._groups.check,
            place=place,
        )

    def _link(self, met: Meeting, rank: int) -> Membership:
        """Who is in the group, once the engine has the links to them."""
        links = self._adopt(met, rank).links
        handles = tuple(-1 if member.rank == rank else links[member.process] for member in met.members)
        return Membership(rank, met.members, handles)

    def _begin_monitor(self, channel: int, timeout: float) -> None:
        """Start what the settings ask for; pairs of the job's ranks gather figures in groups of their own."""

        def pair(ranks: tuple[int, int], number: int) -> Any:
            self.annotations.internal.add_group(number)
            return self.subgroup(channel, ranks, number, timeout, self.plans)

        assert self._monitor is not None
        self._monitor.begin(pair)

    def _adopt(self, meeting: Meeting, rank: int) -> EngineThread:
        """Give the new links to the engine, which is made with the first."""
        try:
            self._check()
            if self._engine_thread is None:
                self._engine_thread = self._start(meeting, rank)
        except BaseException:
            for link in meeting.links.values():
                link.close()
            raise
        self._engine_thread.adopt(meeting.members, meeting.links)
        return self._engine_thread

    def _start(self, meeting: Meeting, rank: int) -> EngineThread:
        """Make the engine, now that it is known how many ranks wait on this machine's CPUs."""
        me, mine, settings = meeting.members[rank], self._process.cpus, self.settings
        self.partition = cpu_sharing.divide_cores(meeting.members, me, mine, settings)
        self.spin = cpu_sharing.spin_budget(meeting.members, me, mine, settings)
        log.info("%s spins %g us while it waits: %s", me, self.spin.microseconds, self.spin.reason)
        home = cpu_sharing.home(meeting.members, me, mine, settings)
        engine = self._native.Engine(
            self._shared_memory(), self.spin.microseconds, str(me), -1 if home is None else home
        )
        return EngineThread(engine, self.partition.parts.engine)

    def _make(self, channel: int, membership: Membership, timeout: float, plans: Plans | None) -> Any:
        assert self._engine_thread is not None
        engine, failed = self._engine_thread.engine, partial(self._failing, channel)
        group = self._groups.make(engine, channel, membership, timeout, plans, failed)
        self._recorder.add_group(channel, membership.members)
        if self._monitor is None:
            me = str(membership.members[membership.rank])
            here = membership.members[membership.rank].machine
            self._monitor = Monitor(
                self.settings,
                engine,
                self._recorder.groups,
                membership.rank,
                me,
                self._trace,
                self._recorder.locate,
                timeout,
                self.annotations,
                elsewhere=sum(member.machine != here for member in membership.members),
            )
        return group

    def _kept(self, native: Any, membership: Membership, timeout: float, plans: Plans | None) -> Any:
        """The group as it is handed out: one between machines whose plans follow the network."""
        replanner = None if membership.one_machine or plans is not None else self.replanner(native, timeout)
        if replanner is None:
            return native
        from paceline.adapt.group import AdaptiveGroup

        assert self._engine_thread is not None
        return AdaptiveGroup(self, native, replanner, self._engine_thread.engine.events)

    def _measure(self, membership: Membership, timeout: float) -> Measure:
        """What measures the links between these machines; timeout: seconds for each message."""

        def measure(between: Any, switches: bool) -> tuple[Placement, Measured]:
            from paceline.adapt.remeasure import links

            with (
                self.annotations.outside.span(),
                self.annotations.internal.span(between.channel, lambda: between.sequence),
            ):
                return links(self, between, membership.members, timeout, switches)

        return measure

    def _failing(self, channel: int, error: CommunicationError, culprit: str, alone: bool) -> None:
        """An operation is about to raise `error`; `alone`: its group goes on."""
        with self._lock:
            self._recorder.complete(error, channel, culprit)
            if alone or self._closed or not self._recorder.add_failure(channel, str(error)):
                return
        self._dump()  # this process may not live to write its trace later

    def _waited_inside(self) -> int:
        return self._engine_thread.engine.exposed_ns() if self._engine_thread is not None else 0

    def _dump(self) -> None:
        self._recorder.dump(self.events(), self._requests())

    def _trace(self) -> bytes:
        return self._recorder.encoded(self.events(), self._requests())

    def _requests(self) -> Sequence[Any]:
        return self._monitor.coordinators.requests() if self._monitor is not None else ()


def _arena(native: EngineModule) -> Arena:
    try:
        return native.Arena()
    except RuntimeError as error:
        raise CommunicationError(
            f"this process gets no shared memory ({error}): the limits on files and addresses, "
            "ulimit -f and ulimit -v, hold for it too"
        ) from None
