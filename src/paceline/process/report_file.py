"""The report of a job, which its first rank writes from time to time and when it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from paceline.calibration.report import GATHER_SECONDS, SIGNAL_SECONDS
from paceline.formats.files import hindrance, is_replaced

if TYPE_CHECKING:
    from paceline.monitor.gathering import Gathering
    from paceline.observe.figures import Figures
    from paceline.observe.networks import Network
    from paceline.observe.periodic import Periodic

log = logging.getLogger("paceline")

STDERR = "-"
"""The place that stands for tables on stderr."""


def writable(place: str) -> bool:
    """Return whether a report can be written there; if not, that is logged."""
    why = hindrance(Path(place)) if place != STDERR else ""
    if why:
        log.warning("the job runs without a report: cannot write PACELINE_REPORT=%s: %s", place, why)
    return not why


class ReportFile:
    """Writes the report to `place`. Thread-safe.

    A plain file holds the report as of some time ago while the job runs, so that it is there however the job ends.
    gathering: brings the other ranks' figures. account: returns those of this rank; its argument says whether they are
    the last ones. networks: returns those that the job has had.
    """

    def __init__(
        self,
        place: str,
        gathering: Gathering,
        account: Callable[[bool], Figures],
        networks: Callable[[], Sequence[Network]],
    ) -> None:
        self._place, self._gathering, self._account, self._networks = place, gathering, account, networks
        self._lock = threading.Lock()
        self._closed = False
        self._saver: Periodic | None = None
        if place != STDERR and is_replaced(Path(place)):
            from paceline.observe.periodic import Periodic
            from paceline.process.seldom import Seldom

            self._saver = Periodic(Seldom(self._save), "paceline-report")

    def hurry(self) -> None:
        """Write it soon: this process may be about to end."""
        if self._saver is not None:
            self._saver.hurry()

    def close(self, by: str = "") -> None:
        """Write it for the last time. by: the name of the signal that ends this process, "" if none does."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._gathering.finish(SIGNAL_SECONDS if by else GATHER_SECONDS)
            self._write(self._account(True), f"{by} ended rank 0." if by else "")
        if self._saver is not None:
            self._saver.close()

    def _save(self) -> None:
        with self._lock:
            if not self._closed:
                self._gathering.round(SIGNAL_SECONDS)
                self._write(self._account(False), "The job had not ended when this was written.")

    def _write(self, own: Figures, end: str) -> None:
        from paceline.observe.report import make
        from paceline.report.verdict.of_report import verdict
        from paceline.report.write import leave

        others, missing, cut = self._gathering.found()
        report = make([own, *others], missing, self._networks(), cut=cut, end=end)
        leave(report, self._place, lambda found: verdict(found, "this report").text)
