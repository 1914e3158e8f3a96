"""Logs what limits a job, once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from paceline.verdict.verdict import Verdict

_SECONDS = 1.0
"""Seconds from one look to the next."""
_CLOSE_SECONDS = 5.0
"""Seconds that closing waits for a look under way."""

log = logging.getLogger("paceline")


class VerdictLog:
    """Looks every second, in a thread of its own, until there is a verdict; logs it, and ends.

    look: see `paceline.verdict.running.RunningVerdict`.
    """

    def __init__(self, look: Callable[[], Verdict | None]) -> None:
        self._look = look
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="paceline-verdict", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait up to 5 s for a look under way."""
        self._stopped.set()
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(_SECONDS):
            if (found := self._look()) is not None:
                log.info("%s", found.text)
                return
