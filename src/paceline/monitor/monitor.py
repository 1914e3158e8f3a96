"""The outside view of a rank: answers to the questions of others, its figures, and the timeline."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from paceline.monitor.answers import Answers
from paceline.monitor.coordinators import Coordinators
from paceline.monitor.far_ranks import FarRanks, Links
from paceline.monitor.stalls import DEFAULT_SECONDS, Stalls
from paceline.monitor.watchdog import Watchdog
from paceline.monitor.whereabouts import Whereabouts
from paceline.observe.annotations import Annotations
from paceline.observe.trace.clocks import Clocks
from paceline.observe.trace.dump import Group
from paceline.observe.trace.listener import Name
from paceline.rendezvous import Member
from paceline.settings.settings import Settings

if TYPE_CHECKING:  # what nobody asks for need not be loaded: it would cost each rank 20 ms
    from paceline.observe.figures import Figures
    from paceline.observe.observer import Engine, Observer
    from paceline.observe.periodic import Periodic
    from paceline.observe.timeline import Timeline

    class Native(Engine, Links, Protocol):
        """The part of the engine that a monitor uses."""


class Recorder(Protocol):
    """The record that a process keeps of itself, `paceline.runtime.flight_recorder.FlightRecorder`."""

    @property
    def groups(self) -> Mapping[int, Group]:
        """All groups that this process has had, by channel, the job's first."""
        ...

    def encoded(self) -> bytes:
        """The trace as of now, for `paceline trace`."""
        ...

    def clocks(self) -> Clocks:
        """What this process knows of the clocks of its job's machines."""
        ...

    def locate(self, who: str) -> tuple[int, int] | None:
        """The rank in the job and the process id of the rank that peers call so; None where it is not known."""
        ...


class Monitor:
    """The outside view of one rank, from its first group on. It costs nothing until somebody asks for something.

    members: the ranks of the job, of which this one is `rank`. timeout: the seconds that the job's operations may take
    if they are given no others. annotations: see `Observer`.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Native,
        recorder: Recorder,
        rank: int,
        members: Sequence[Member],
        timeout: float,
        annotations: Annotations,
    ) -> None:
        self.job = next(iter(recorder.groups))
        """The channel of the group of all ranks."""
        self.rank, self.members, self.annotations = rank, members, annotations
        self.coordinators = Coordinators(keep_closed=bool(settings.trace), look=self._look_if_anybody_wants)
        """The coordinators of this process, as others see them."""
        self._recorder = recorder
        self._engine = engine
        self._observer: Observer | None = None
        self._lock = threading.Lock()
        self._timeline: Timeline | None = None
        self._looker: Periodic | None = None
        self._seconds = 0.25
        patience = settings.stall_seconds
        patience = DEFAULT_SECONDS if patience is None else patience
        stalls = Stalls(engine, str(members[rank]), patience, timeout, Whereabouts(self.job, recorder.locate))
        self._name = Name(os.geteuid(), self.job, rank, os.getpid())
        far = FarRanks(engine, recorder.locate)
        self._watchdog = Watchdog(self._name, stalls, far, Answers(recorder.encoded, lambda: self.observer, far))

    @property
    def observer(self) -> Observer:
        """The observer of this rank; it is made when it is first asked for, and counts from then on."""
        with self._lock:
            if self._observer is None:
                from paceline.observe.observer import Observer

                self._observer = Observer(
                    self._engine,
                    self.coordinators.open,
                    self._named,
                    self.annotations,
                    self.rank,
                    len(self.members),
                    clocks=self._recorder.clocks,
                    elsewhere=sum(member.machine != self.members[self.rank].machine for member in self.members),
                )
            return self._observer

    def keep_looking(self) -> None:
        """Miss nothing from now on: look so often that the engine's rings never run over."""
        if self._looker is None:
            from paceline.observe.periodic import Periodic

            self._looker = Periodic(self._look, "paceline-looker")

    def figures(self) -> Figures:
        """The figures of this rank as they are now."""
        return self.observer.figures()

    def start_timeline(self, path: str, mark_cycles: bool = False, here: bool | None = None) -> None:
        """Write the timeline to the file `path`; see `paceline.timeline.start`. Raises OSError."""
        self.stop_timeline()
        if self.rank == 0 if here is None else here:
            from paceline.observe.timeline import Timeline

            self._timeline = Timeline(path, self.observer, self._name, mark_cycles)

    def stop_timeline(self) -> None:
        """Finish the timeline; nothing happens if none is being written."""
        timeline, self._timeline = self._timeline, None
        if timeline is not None:
            timeline.close()

    def close(self) -> None:
        """Let nobody see this rank any more. May be called while another thread uses this monitor."""
        with ExitStack() as each:  # one that fails does not keep the others from closing; the last is done first
            if self._looker is not None:
                each.callback(self._looker.close)
            each.callback(self.stop_timeline)
            each.callback(self._watchdog.close)

    def _look_if_anybody_wants(self) -> None:
        if self._looker is not None or self._timeline is not None:
            self.observer.look()

    def _look(self) -> float:
        from paceline.observe.periodic import seconds_to_next

        self._seconds = seconds_to_next(self.observer.look(), self._seconds)
        return self._seconds

    def _named(self) -> dict[int, tuple[str, int]]:
        return {
            channel: (group.name, len(group.ranks))
            for channel, group in dict(self._recorder.groups).items()
            if not self.annotations.internal.has_group(channel)
        }
