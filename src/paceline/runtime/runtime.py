"""The runtime of a process: one engine with its links to other processes, shared memory, and its groups.

Links are between processes, so every group of a process shares them; that is why there is one runtime per
process, made on first use by `paceline.process.current.runtime()`. Everything it needs is passed in, so a test makes
its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from paceline import _engine
from paceline.cpu import budget, pinning
from paceline.cpu.partition import Partition
from paceline.errors import NOBODY, CommunicationError, Culprit, RendezvousError, refusal, refuse_forked
from paceline.group.host import Ending, Plans
from paceline.monitor.monitor import Monitor
from paceline.observe.annotations import Annotations
from paceline.observe.trace.event import Row
from paceline.observe.trace.request import Request
from paceline.rendezvous import Meeting, Member, Process, Store, meet, new_process_name, this_machine
from paceline.rendezvous.deadline import Deadline
from paceline.runtime.flight_recorder import FlightRecorder
from paceline.runtime.groups import Groups
from paceline.runtime.in_flight import InFlight
from paceline.runtime.membership import Membership
from paceline.runtime.native import EngineModule
from paceline.runtime.network import Following, Measure, Network
from paceline.runtime.outlets import Outlets, OutletsOf
from paceline.runtime.process_engine import ProcessEngine
from paceline.runtime.shared_memory import SharedMemory
from paceline.settings.settings import Settings
from paceline.version import VERSION

if TYPE_CHECKING:
    from paceline.observe.observer import Source
    from paceline.topology.discover import Placement
    from paceline.topology.measured import Measured


class Runtime:
    """Owns the engine of this process. Thread-safe; groups are made one at a time.

    plans: makes the plans of groups for which nobody says otherwise. network: looks at the network between machines.
    outlets: makes what people see of a rank. Raises CommunicationError where this process gets no shared memory.
    """

    def __init__(
        self, settings: Settings, native: EngineModule, plans: Plans, network: Network, outlets: OutletsOf
    ) -> None:
        self.settings = settings
        self._native = native
        self._network = network
        self._outlets_of = outlets
        self._outlets: Outlets | None = None
        self._groups = Groups(settings, plans, network)
        self._process = Process(
            new_process_name(), this_machine(settings.machine), budget.available(), VERSION, self._groups.network
        )
        self._pid = os.getpid()
        self._memory = SharedMemory(native)
        self._engine = ProcessEngine(native, self._memory, self._process.cpus, settings)
        self._meeting = threading.Lock()  # held through a whole meeting; the other only for moments
        self._lock = threading.Lock()
        self._used: set[str] = set()
        self._recorder = FlightRecorder(
            self._process.name, settings, self._engine.events, self._requests, self._engine.clocks
        )
        self._monitor: Monitor | None = None
        self._in_flight = InFlight()
        self._closed = False
        self._devices = _engine.Devices()
        self.annotations = Annotations(self._engine.exposed_ns)
        """The facts that others see of this process beside what the engine knows."""

    @property
    def devices(self) -> _engine.Devices:
        """The CUDA devices of this process; the driver is opened when they are first asked for.

        Raises ValueError where PACELINE_CUDA leaves devices to NCCL.
        """
        if self.settings.cuda == "nccl":
            raise ValueError(
                "arrays of a CUDA device need PACELINE_CUDA=engine on all ranks, which is not the default: Paceline's "
                "own path on devices has not run on a GPU yet"
            )
        return self._devices

    @devices.setter
    def devices(self, found: _engine.Devices) -> None:
        self._devices = found

    def group(
        self,
        store: Store | None,
        rank: int,
        size: int,
        timeout: float,
        plans: Plans | None = None,
        *,
        meeting: Deadline | float | None = None,
        place: str = "",
        server: Culprit = NOBODY,
        members: Sequence[Member] = (),
    ) -> _engine.Group:
        """Meet the other ranks of a new group through `store`, and make the native group.

        Collective: all processes make their groups in the same order. `timeout` is the seconds for every collective,
        `meeting` those for the meeting (default: as many), or its deadline. `place` says where the store is,
        `server` which rank serves it, if one does. members: the ranks of the group, where they are known beforehand.
        Raises RendezvousError; at once if one of these has died or left.
        """
        self._check()
        with self._meeting:
            first = self._monitor is None
            met = self._meet(store, rank, size, timeout if meeting is None else meeting, place, server, members)
            membership = self._link(met, rank)
            native = self._make(met.channel, membership, timeout, plans)
            outlets = self._watch(membership, timeout)
            if plans is None:
                self._survey(native, membership, timeout, first)
                self._follow(native, membership, timeout)
            outlets.begin(lambda: self._groups.networks, self._fate)
            return native

    def subgroup(
        self, parent: int, ranks: Sequence[int], channel: int, timeout: float, plans: Plans | None = None
    ) -> _engine.Group:
        """A native group of some ranks of the group with channel `parent`, in that order; needs no meeting.

        All its members must pass the same `ranks` and the same new random 63-bit `channel`. `timeout` is the seconds
        for every collective. Raises CommunicationError unless this process is one of them, once.
        """
        self._check()
        membership = self.membership(parent).part(ranks)
        native = self._make(channel, membership, timeout, plans)
        if plans is None:
            self._follow(native, membership, timeout)
        return native

    def membership(self, channel: int) -> Membership:
        """Return the members of the group with this channel. Raises CommunicationError if there is none."""
        return self._groups.membership(channel)

    def placement(self, channel: int) -> Placement:
        """The network between the members of the group with this channel, as it is known now."""
        return self._groups.placement(channel)

    def follow(self, coordinator: _engine.Coordinator, data: _engine.Group, timeout: float) -> Following | None:
        """Return an object that adapts the plans of a coordinator's group to its network where the coordinator stops.

        It is None on one machine, and where an algorithm was asked for. timeout: the seconds for each message while
        links are measured.
        """
        membership = self.membership(data.channel)
        followed = self._groups.followed(data, membership)
        if followed is None:
            return None
        measure = self._measure(membership, timeout)
        return self._network.follow_coordinator(self, data, followed.placement, measure, followed.plan, coordinator)

    def encoding(self, native: _engine.Group) -> tuple[int, int]:
        """Return the cost model's choice for sums and means of this group: a codec, and the bytes from which it pays.

        Collective for the first time in a group, where rank 0 logs the choice.
        """
        return self._groups.encoding(native)

    def exact(self, channel: int) -> tuple[int, int]:
        """The codec of parameters that are broadcast in this group, `lossless` or none, and from how many bytes on.

        It is `lossless` if PACELINE_COMPRESS is, or is `auto` and the cost model predicts that it pays.
        """
        return self._groups.exact(channel)

    def forget(self, channel: int) -> None:
        """Forget the group with this channel, which was closed."""
        self._groups.forget(channel)
        self._recorder.close_group(channel)

    def notify(self, operation: int, callback: Callable[[], None]) -> None:
        """Call `callback` once when this NOTIFY operation has finished, well or not.

        It runs on a thread that does nothing else, or right here if the operation has been reported already; the
        callbacks of a process run one after another, in the order in which their operations ended.
        """
        self._check()
        thread = self._engine.thread
        assert thread is not None
        thread.notify(operation, callback)

    def dropped(self, operation: Ending) -> None:
        """Keep an operation that nobody holds any more, and what it uses, alive until it is over."""
        if self._pid == os.getpid():
            self._in_flight.add(operation)

    def close(self) -> None:
        """Say goodbye to the peers and stop the threads; run the callbacks of operations that are not over.

        Further calls, and those of a forked child, do nothing. Raises Mismatch if the ranks of a group disagreed and no
        call has said so.
        """
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._recorder.stop()
            self._groups.clear()
        with ExitStack() as each:  # one that fails does not keep the others from closing; the last is done first
            each.callback(self._recorder.dump)
            each.callback(self._memory.release)
            each.callback(self._engine.close)
            each.callback(self._devices.close)
            if self._monitor is not None:
                each.callback(self._monitor.close)
            if self._outlets is not None:
                each.callback(self._outlets.close)

    def allocate(self, size: int) -> _engine.ArenaBuffer:
        """`size` bytes, uninitialised, that the peers on this machine see, as a buffer; they outlive this runtime.

        Raises MemoryError if there is no room, CommunicationError if the runtime is closed.
        """
        self._check()
        return self._memory.allocate(size)

    def input_workers(self, then: Callable[[int], object] | None = None) -> pinning.InputWorkers:
        """Return the callable that an input worker calls first, see `paceline.worker_init`.

        Raises CommunicationError before the first group.
        """
        self._check()
        if self.partition is None:
            raise refusal(
                "which CPUs input workers get is known once the ranks have met: "
                "join the job (paceline.init, init_process_group) before worker_init"
            )
        return pinning.InputWorkers(self.partition.parts.input, then)

    def events(self) -> Sequence[Row]:
        """The event ring: this process's last operations, oldest first (see `paceline.observe.trace.event`)."""
        return self._engine.events()

    def exposed_ns(self) -> int:
        """The nanoseconds in which some caller waited for communication so far."""
        return self._engine.exposed_ns() + self.annotations.outside.total_ns()

    @property
    def plans(self) -> Plans:
        """The default maker of plans for groups."""
        return self._groups.plans

    @property
    def spin(self) -> budget.SpinBudget | None:
        """The engine's spin time, and the reason for it; None before the first group."""
        return self._engine.spin

    @property
    def partition(self) -> Partition | None:
        """The CPUs of engine, input workers and compute, and why; None before the first group."""
        return self._engine.partition

    @property
    def monitor(self) -> Monitor | None:
        """From where others see this rank; None before its first group."""
        return self._monitor

    def show(self, channel: int, coordinator: Source) -> None:
        """Let others see a coordinator. channel: that of the group that carries its data."""
        if self._monitor is not None:
            self._monitor.coordinators.show(channel, coordinator)

    def hide(self, channel: int) -> None:
        """Let others no longer see the coordinator on this channel, which closes."""
        if self._monitor is not None:
            self._monitor.coordinators.hide(channel)

    @property
    def usable(self) -> bool:
        """True if groups can be made: the runtime is not closed, and was not inherited by a fork."""
        return not self._closed and self._pid == os.getpid()

    def refuse_forked(self) -> None:
        """Raise CommunicationError in a process that inherited this by a fork."""
        refuse_forked(self._pid)

    def _check(self) -> None:
        self.refuse_forked()
        if self._closed:
            raise refusal("Paceline was shut down in this process", self._recorder.rank)

    def _meet(
        self,
        store: Store | None,
        rank: int,
        size: int,
        limit: Deadline | float,
        place: str,
        server: Culprit,
        members: Sequence[Member],
    ) -> Meeting:
        try:
            return meet(
                store,
                rank,
                size,
                limit,
                process=self._process,
                settings=self.settings,
                native=self._native,
                arena=self._memory.arena.descriptor,
                linked=self._engine.linked,
                used=self._used,
                check=self._groups.check,
                place=place,
                server=server,
                look=partial(self._look_for, members),
            )
        except RendezvousError as error:
            self._recorder.place(error, size, members)
            raise

    def _look_for(self, members: Sequence[Member]) -> None:
        """Raise RendezvousError if one of these, with whom a group is to be made, has died or left."""
        for member in members:
            fate, culprit = self._engine.fate(member.process)
            if fate:
                blamed = self._recorder.member_called(culprit) or member
                raise RendezvousError(f"{fate}, and is needed for a new group", blamed.culprit)

    def _link(self, met: Meeting, rank: int) -> Membership:
        """Link to the members of the group, and return them. If this raises, all new links are closed."""
        with self._lock:
            try:
                self._check()
                return self._engine.link(met, rank)
            except BaseException:
                met.close()
                raise

    def _make(self, channel: int, membership: Membership, timeout: float, plans: Plans | None) -> _engine.Group:
        """The native group, whose failures are recorded."""
        with self._lock:
            self._check()
            failed = partial(self._failed, channel)
            try:
                native = self._groups.make(self._engine.native, channel, membership, timeout, plans, failed)
            except MemoryError:
                raise refusal(
                    f"this process gets no memory for a group of {len(membership.members)} ranks: ulimit -v, the limit "
                    "on addresses, must leave each process some GB",
                    membership.members[membership.rank].rank,
                ) from None
            self._recorder.add_group(channel, membership.members)
            return native

    def _failed(self, channel: int, error: CommunicationError, culprit: str, alone: bool) -> None:
        """Note that an operation is about to raise `error`; see `Failing`."""
        self._recorder.failed(channel, error, culprit, alone)
        if self._outlets is not None and not alone:
            self._outlets.failed()

    def _fate(self, rank: int) -> str:
        """The fate of a rank of the job, in words; "" while it is there."""
        assert self._monitor is not None
        return self._engine.fate(self._monitor.members[rank].process)[0]

    def _watch(self, membership: Membership, timeout: float) -> Outlets:
        """Return the outlets through which people see this rank; others see it from its first group on."""
        if self._outlets is None:
            self._monitor = Monitor(
                self.settings,
                self._engine.native,
                self._recorder,
                membership.rank,
                membership.members,
                timeout,
                self.annotations,
            )
            self._outlets = self._outlets_of(self.settings, self._monitor)
        return self._outlets

    def _survey(self, native: _engine.Group, membership: Membership, timeout: float, new: bool) -> None:
        """Measure the links between the machines of a new group where nobody has said what they are."""
        if not membership.one_machine:
            with self.annotations.internal.span(native.channel, lambda: native.sequence):
                self._groups.survey(native, self._measure(membership, timeout), new)

    def _follow(self, native: _engine.Group, membership: Membership, timeout: float) -> None:
        """Keep the plans of a group between machines to the network."""
        followed = self._groups.followed(native, membership)
        if followed is not None:
            measure = self._measure(membership, timeout)
            self._network.follow(self, native, followed.placement, measure, followed.plan)

    def _measure(self, membership: Membership, timeout: float) -> Measure:
        """Return the function that measures the links between these machines; timeout: seconds for each message."""

        def measure(between: _engine.Group, switches: bool) -> tuple[Placement, Measured]:
            with (
                self.annotations.outside.span(),
                self.annotations.internal.span(between.channel, lambda: between.sequence),
            ):
                return self._network.links(self, between, membership.members, timeout, switches)

        return measure

    def _requests(self) -> Sequence[Request]:
        return self._monitor.coordinators.requests() if self._monitor is not None else ()
