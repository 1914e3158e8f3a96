"""The outlets of a rank: the report, the trace, the metrics, and a verdict in the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline.calibration.report import GATHER_SECONDS, SIGNAL_SECONDS
from paceline.monitor.monitor import Monitor
from paceline.settings.settings import Settings

if TYPE_CHECKING:  # what nobody asks for need not be loaded: it would cost each rank 20 ms
    from paceline.monitor.metrics.server import Server
    from paceline.observe.call_recorder import CallRecorder
    from paceline.observe.figures import Figures
    from paceline.observe.networks import Network
    from paceline.observe.periodic import Periodic
    from paceline.process.last_moment import LastMoment
    from paceline.process.report_file import ReportFile
    from paceline.process.verdict_log import VerdictLog
    from paceline.report.verdict.verdict import Verdict
    from paceline.topology import Topology

log = logging.getLogger("paceline")


class Outlets:
    """Those of one rank, as far as its settings ask for them."""

    def __init__(self, settings: Settings, monitor: Monitor) -> None:
        self._settings, self._monitor = settings, monitor
        self._begun = False
        self._leaving = threading.Lock()
        self._left = False
        self._calls: CallRecorder | None = None
        self._report: ReportFile | None = None
        self._dumper: Periodic | None = None
        self._last_moment: LastMoment | None = None
        self._networks: Callable[[], Sequence[Network]] = tuple
        self._fate: Callable[[int], str] = lambda _: ""
        self._server: Server | None = None
        self._verdict: VerdictLog | None = None

    def begin(self, networks: Callable[[], Sequence[Network]], fate: Callable[[int], str]) -> None:
        """Start what the settings ask for; further calls do nothing.

        Rank 0 logs once what limits the job, when it has made some steps. If its log takes only warnings, it looks only
        where ranks are on several machines, so that they may wait for a network.

        networks: returns those that the job has had so far, the present one last. fate: returns what has become of a
        rank of the job, in words; "" while it is there.
        """
        if self._begun:
            return
        self._begun = True
        self._networks, self._fate = networks, fate
        if self._settings.report is not None:
            self._record(self._settings.report)
        if self._monitor.is_traced:
            from paceline.observe.periodic import Periodic
            from paceline.process.seldom import Seldom

            self._dumper = Periodic(Seldom(self._monitor.dump), "paceline-trace")
        if self._calls is not None or self._dumper is not None:
            from paceline.process.last_moment import LastMoment

            self._last_moment = LastMoment(self._end_by)
        if self._monitor.rank == 0 and self._is_verdict_wanted():
            from paceline.process.verdict_log import VerdictLog

            self._verdict = VerdictLog(self._running_verdict)
        if self._settings.metrics is not None:
            from paceline.monitor.metrics.serve import serve

            here = str(self._monitor.members[self._monitor.rank])
            self._server = serve(
                self._settings.metrics, self._settings, here, self._monitor.figures, self._monitor.rank == 0
            )
            if self._server is not None:
                self._monitor.keep_looking()

    def failed(self) -> None:
        """Write the report soon: a group has failed, and the process may be about to end.

        If a signal is about to end it, this waits for that: the other ranks end by the same signal, and nobody is to
        blame.
        """
        if self._last_moment is not None:
            self._last_moment.wait()
        if self._report is not None:
            self._report.hurry()

    def close(self) -> None:
        """Finish them, and leave the report. May be called while another thread uses the monitor."""
        with ExitStack() as each:  # one that fails does not keep the others from closing; the last is done first
            if self._last_moment is not None:
                each.callback(self._last_moment.close)
            each.callback(self._leave)
            if self._dumper is not None:
                each.callback(self._dumper.close)
            if self._server is not None:
                each.callback(self._server.close)
            if self._verdict is not None:
                each.callback(self._verdict.close)

    def _record(self, place: str) -> None:
        from paceline.observe.call_recorder import CallRecorder

        monitor, size = self._monitor, len(self._monitor.members)
        if monitor.rank == 0:
            from paceline.process.report_file import ReportFile, writable

            if not writable(place):
                return
        self._calls = CallRecorder(
            monitor.observer, monitor.annotations, monitor.coordinators.open, size, self._settings.compress
        )
        monitor.tell(lambda: self._account(False))
        monitor.keep_looking()
        if monitor.rank == 0:
            self._report = ReportFile(place, monitor.gather(self._fate), self._account, self._networks)

    def _end_by(self, signal: str) -> None:
        """A signal is about to end this process."""
        if self._dumper is not None:
            self._monitor.dump()
        self._leave(signal)

    def _leave(self, by: str = "") -> None:
        """Write the report, or hand over what it holds of this rank. by: the signal that ends this process."""
        if self._report is not None:
            self._report.close(by)
        elif self._calls is not None:
            with self._leaving:
                if not self._left:
                    self._left = True
                    seconds = SIGNAL_SECONDS if by else GATHER_SECONDS
                    self._monitor.leave(self._account(True), self._fate, seconds)

    def _account(self, final: bool) -> Figures:
        figures = self._monitor.figures()
        if self._calls is None:
            return replace(figures, final=final)
        return replace(figures, profile=self._calls.profile(final), final=final)

    def _is_verdict_wanted(self) -> bool:
        members = self._monitor.members
        machines = len({member.machine for member in members})
        told = log.isEnabledFor(logging.INFO) or (machines > 1 and log.isEnabledFor(logging.WARNING))
        return told and len(members) > 1

    def _running_verdict(self) -> Callable[[], Verdict | None]:
        from paceline.report.verdict.running import RunningVerdict  # takes 0.2 s, which short jobs are spared

        monitor, compress = self._monitor, self._settings.compress
        return RunningVerdict(monitor.observer, monitor.annotations.internal, self._topology, compress).look

    def _topology(self) -> Topology | None:
        known = self._networks()
        return known[-1].topology if known else None
