"""The outside view of a rank: answers to the questions of others, its figures, and the timeline."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
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
    from paceline.monitor.gathering import Gathering
    from paceline.observe.figures import Figures
    from paceline.observe.observer import Engine, Observer
    from paceline.observe.periodic import Periodic
    from paceline.observe.timeline import Timeline

    class Native(Engine, Links, Protocol):
        """The part of the engine that a monitor uses."""


log = logging.getLogger("paceline")


class Recorder(Protocol):
    """The record that a process keeps of itself, `paceline.runtime.flight_recorder.FlightRecorder`."""

    @property
    def groups(self) -> Mapping[int, Group]:
        """All groups that this process has had, by channel, the job's first."""
        ...

    @property
    def writes(self) -> bool:
        """True if the trace is written to PACELINE_TRACE."""
        ...

    def encoded(self) -> bytes:
        """The trace as of now, for `paceline trace`."""
        ...

    def clocks(self) -> Clocks:
        """The bounds that this process has of other machines' clocks."""
        ...

    def dump(self) -> None:
        """Write the trace where PACELINE_TRACE says, if it says so."""
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
        self._far = FarRanks(engine, recorder.locate)
        self._answers = Answers(recorder.encoded, lambda: self.observer, self._far)
        self._watchdog = Watchdog(self._name, stalls, self._far, self._answers)

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

            self._look()
            self._looker = Periodic(self._look, "paceline-looker")

    def figures(self) -> Figures:
        """The figures of this rank as they are now."""
        return self.observer.figures()

    def tell(self, account: Callable[[], Figures]) -> None:
        """Say what a report holds of this rank: what `account` returns."""
        from paceline.observe.figures import encode

        self._answers.account = lambda: encode(account())

    def gather(self, fate: Callable[[int], str]) -> Gathering:
        """Gather the other ranks' figures on this one, the first. fate: see `Gathering`."""
        from paceline.monitor.gathering import Gathering

        gathering = Gathering(self.job, self._far, range(1, len(self.members)), fate)
        self._watchdog.take = gathering.take
        return gathering

    def leave(self, account: Figures, fate: Callable[[int], str], seconds: float) -> None:
        """Hand this rank's last figures to the first rank. An error is logged and not raised.

        fate: see `Gathering`. seconds: the time that this may take.
        """
        from paceline.observe.figures import encode
        from paceline.observe.trace.asking import hand_over
        from paceline.observe.trace.live import listening

        content = encode(account)
        first = next((name for name in listening() if (name.job, name.rank) == (self.job, 0)), None)
        if first is not None:
            if why := hand_over(first, self.rank, content, seconds):
                log.info("the report may lack the end of rank %d: %s", self.rank, why)
        elif self.members[0].machine != self.members[self.rank].machine:
            self._far.leave(content, self._answers, lambda: bool(fate(0)), seconds)

    @property
    def is_traced(self) -> bool:
        """True if this rank writes its trace."""
        return self._recorder.writes

    def dump(self) -> None:
        """Write the trace of this rank where PACELINE_TRACE says."""
        self._recorder.dump()

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
        return {channel: (group.name, len(group.ranks)) for channel, group in dict(self._recorder.groups).items()}
