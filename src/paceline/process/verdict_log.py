"""Logs what limits a job, once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.report.verdict.verdict import Verdict

_SECONDS = 1.0
"""Seconds until it begins, and from then to the first look; each further look waits twice as long as the one before.

A look costs up to 50 ms of CPU time, where the engine's ring of events is full."""
_CLOSE_SECONDS = 5.0
"""Seconds that closing waits for a look under way."""

log = logging.getLogger("paceline")


class VerdictLog:
    """Looks now and then, in a thread of its own, until the job is found to wait for its network, and warns of that.

    Perhaps nobody knows of it. The first verdict that says something else is logged as an info.

    begin: called in the thread, before the first look; returns what looks, see `paceline.report.verdict.running`.
    """

    def __init__(self, begin: Callable[[], Callable[[], Verdict | None]]) -> None:
        self._begin = begin
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="paceline-verdict", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait up to 5 s for a look under way."""
        self._stopped.set()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        if self._stopped.wait(_SECONDS):
            return
        look, seconds, told = self._begin(), _SECONDS, False
        while not self._stopped.wait(seconds):
            found = look()
            if found is not None and found.waits_for_network:
                log.warning("%s", found.text)
                return
            if found is not None and not told:  # a job that begins beside others may wait for its network later
                log.info("%s", found.text)
                told = True
            seconds *= 2
