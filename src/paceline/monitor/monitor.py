"""What others see of a rank: answers to their questions, its figures, the timeline, metrics and the report."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from paceline.monitor.answers import Answers
from paceline.monitor.coordinators import Coordinators
from paceline.monitor.far_ranks import FarRanks, Links
from paceline.monitor.stalls import DEFAULT_SECONDS, Stalls
from paceline.monitor.watchdog import Watchdog
from paceline.monitor.whereabouts import Whereabouts
from paceline.observe.annotations import Annotations
from paceline.rendezvous import Member
from paceline.settings.settings import Settings
from paceline.trace.dump import Group
from paceline.trace.listener import Name

if TYPE_CHECKING:  # what nobody asks for need not be loaded: it would cost each rank 20 ms
    from paceline.metrics.server import Server
    from paceline.monitor.verdict_log import VerdictLog
    from paceline.observe.call_recorder import CallRecorder
    from paceline.observe.figures import Figures
    from paceline.observe.observer import Engine, Observer
    from paceline.observe.periodic import Periodic
    from paceline.observe.timeline import Timeline
    from paceline.report.gather import Gathering, Pair
    from paceline.topology import Topology
    from paceline.verdict.verdict import Verdict

    class Native(Engine, Links, Protocol):
        """What a monitor asks of the engine."""


log = logging.getLogger("paceline")


class Recorder(Protocol):
    """What a process has recorded of itself, `paceline.runtime.flight_recorder.FlightRecorder`."""

    @property
    def groups(self) -> Mapping[int, Group]:
        """All groups that this process has had, by channel, the job's first."""
        ...

    def encoded(self) -> bytes:
        """The trace as of now, for `paceline trace`."""
        ...

    def locate(self, who: str) -> tuple[int, int] | None:
        """The rank in the job and the process id of the rank that peers call so; None where it is not known."""
        ...


class Monitor:
    """What others see of one rank, from its first group on. It costs nothing until somebody asks for something.

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
        self._job = next(iter(recorder.groups))
        self._settings, self._rank, self._members = settings, rank, members
        self._annotations = annotations
        self.coordinators = Coordinators(keep_closed=bool(settings.trace), look=self._look_if_anybody_wants)
        """The coordinators of this process, as others see them."""
        self._gathering: Gathering | None = None
        self._calls: CallRecorder | None = None
        self._topology: Callable[[], Topology | None] = lambda: None
        self._server: Server | None = None
        self._verdict: VerdictLog | None = None
        self._recorder = recorder
        self._engine = engine
        self._observer: Observer | None = None
        self._lock = threading.Lock()
        self._timeline: Timeline | None = None
        self._looker: Periodic | None = None
        self._seconds = 0.25
        patience = settings.stall_seconds
        patience = DEFAULT_SECONDS if patience is None else patience
        stalls = Stalls(engine, str(members[rank]), patience, timeout, Whereabouts(self._job, recorder.locate))
        self._name = Name(os.geteuid(), self._job, rank, os.getpid())
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
                    self._annotations,
                    self._rank,
                    len(self._members),
                    elsewhere=sum(member.machine != self._members[self._rank].machine for member in self._members),
                )
            return self._observer

    def begin(self, pair: Pair, topology: Callable[[], Topology | None]) -> None:
        """Start the report and the metrics if the settings ask for them; further calls do nothing.

        Rank 0 logs once what limits the job, when it has made some steps. If its log takes only warnings, it looks only
        where ranks are on several machines, so that they may wait for a network.

        Collective over the job. pair: makes a group of two ranks, see `Gathering`. topology: returns the network of the
        job as it is known now.
        """
        if self._settings.report is not None and self._gathering is None:
            from paceline.observe.call_recorder import CallRecorder
            from paceline.report.gather import Gathering

            self._topology = topology
            self._calls = CallRecorder(
                self.observer,
                self._annotations,
                self.coordinators.open,
                len(self._members),
                self._settings.compress,
            )
            self._gathering = Gathering(pair, self._job, self._rank, len(self._members))
            self.keep_looking()
        machines = len({member.machine for member in self._members})
        wanted = log.isEnabledFor(logging.INFO) or (machines > 1 and log.isEnabledFor(logging.WARNING))
        if self._rank == 0 and len(self._members) > 1 and self._verdict is None and wanted:
            from paceline.monitor.verdict_log import VerdictLog

            self._verdict = VerdictLog(partial(self._running_verdict, topology))
        if self._settings.metrics is not None and self._server is None:
            from paceline.metrics.serve import serve

            self._server = serve(self._settings.metrics, self._settings, str(self._members[self._rank]), self.figures)
            if self._server is not None:
                self.keep_looking()

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
        if self._rank == 0 if here is None else here:
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
            if self._gathering is not None:
                each.callback(self._report, self._gathering)
            if self._server is not None:
                each.callback(self._server.close)
            if self._verdict is not None:
                each.callback(self._verdict.close)
            if self._looker is not None:
                each.callback(self._looker.close)
            each.callback(self.stop_timeline)
            each.callback(self._watchdog.close)

    def _running_verdict(self, topology: Callable[[], Topology | None]) -> Callable[[], Verdict | None]:
        from paceline.verdict.running import RunningVerdict  # takes 0.2 s, which short jobs are spared

        return RunningVerdict(self.observer, self._annotations.internal, topology, self._settings.compress).look

    def _report(self, gathering: Gathering) -> None:
        figures, place = self.figures(), self._settings.report
        if self._calls is not None:
            figures = replace(figures, profile=self._calls.profile())
        if self._rank != 0:
            gathering.send(figures)
        elif place is not None:
            from paceline.report.report import make
            from paceline.report.write import leave
            from paceline.verdict.of_report import verdict

            others, missing = gathering.receive()
            report = make([figures, *others], missing, self._topology())
            leave(report, place, lambda found: verdict(found, "this report").text)

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
            if not self._annotations.internal.has_group(channel)
        }
