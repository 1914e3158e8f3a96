"""The outlets through which people see a rank without asking it: the report, the metrics, and a verdict in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline.monitor.monitor import Monitor
from paceline.settings.settings import Settings

if TYPE_CHECKING:  # what nobody asks for need not be loaded: it would cost each rank 20 ms
    from paceline.monitor.metrics.server import Server
    from paceline.observe.call_recorder import CallRecorder
    from paceline.observe.gather import Gathering, Pair
    from paceline.process.verdict_log import VerdictLog
    from paceline.report.verdict.verdict import Verdict
    from paceline.topology import Topology

log = logging.getLogger("paceline")


class Outlets:
    """Those of one rank, as far as its settings ask for them."""

    def __init__(self, settings: Settings, monitor: Monitor) -> None:
        self._settings, self._monitor = settings, monitor
        self._gathering: Gathering | None = None
        self._calls: CallRecorder | None = None
        self._topology: Callable[[], Topology | None] = lambda: None
        self._server: Server | None = None
        self._verdict: VerdictLog | None = None

    def begin(self, pair: Pair, topology: Callable[[], Topology | None]) -> None:
        """Start the report and the metrics if the settings ask for them; further calls do nothing.

        Rank 0 logs once what limits the job, when it has made some steps. If its log takes only warnings, it looks only
        where ranks are on several machines, so that they may wait for a network.

        Collective over the job. pair: makes a group of two ranks, see `Gathering`. topology: returns the network of the
        job as it is known now.
        """
        self._topology = topology
        if self._settings.report is not None and self._gathering is None:
            self._record(pair)
        if self._monitor.rank == 0 and self._verdict is None and self._is_verdict_wanted():
            from paceline.process.verdict_log import VerdictLog

            self._verdict = VerdictLog(self._running_verdict)
        if self._settings.metrics is not None and self._server is None:
            from paceline.monitor.metrics.serve import serve

            here = str(self._monitor.members[self._monitor.rank])
            self._server = serve(
                self._settings.metrics, self._settings, here, self._monitor.figures, self._monitor.rank == 0
            )
            if self._server is not None:
                self._monitor.keep_looking()

    def close(self) -> None:
        """Finish them, and leave the report. May be called while another thread uses the monitor."""
        with ExitStack() as each:  # one that fails does not keep the others from closing; the last is done first
            if self._gathering is not None:
                each.callback(self._report, self._gathering)
            if self._server is not None:
                each.callback(self._server.close)
            if self._verdict is not None:
                each.callback(self._verdict.close)

    def _record(self, pair: Pair) -> None:
        from paceline.observe.call_recorder import CallRecorder
        from paceline.observe.gather import Gathering

        monitor, size = self._monitor, len(self._monitor.members)
        self._calls = CallRecorder(
            monitor.observer, monitor.annotations, monitor.coordinators.open, size, self._settings.compress
        )
        self._gathering = Gathering(pair, monitor.job, monitor.rank, size)
        monitor.keep_looking()

    def _is_verdict_wanted(self) -> bool:
        members = self._monitor.members
        machines = len({member.machine for member in members})
        told = log.isEnabledFor(logging.INFO) or (machines > 1 and log.isEnabledFor(logging.WARNING))
        return told and len(members) > 1

    def _running_verdict(self) -> Callable[[], Verdict | None]:
        from paceline.report.verdict.running import RunningVerdict  # takes 0.2 s, which short jobs are spared

        monitor, compress = self._monitor, self._settings.compress
        return RunningVerdict(monitor.observer, monitor.annotations.internal, self._topology, compress).look

    def _report(self, gathering: Gathering) -> None:
        figures, place = self._monitor.figures(), self._settings.report
        if self._calls is not None:
            figures = replace(figures, profile=self._calls.profile())
        if self._monitor.rank != 0:
            gathering.send(figures)
        elif place is not None:
            from paceline.observe.report import make
            from paceline.report.verdict.of_report import verdict
            from paceline.report.write import leave

            others, missing = gathering.receive()
            report = make([figures, *others], missing, self._topology())
            leave(report, place, lambda found: verdict(found, "this report").text)
