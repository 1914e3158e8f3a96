"""A thread that repeats an action until it is closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_CLOSE_SECONDS = 5.0
"""Seconds that closing waits for an action under way."""

log = logging.getLogger("paceline")


class Periodic:
    """Calls `action` at once, and again after as many seconds as it returns. An exception is logged and ends it."""

    def __init__(self, action: Callable[[], float], name: str) -> None:
        self._action = action
        self._stopped = False
        self._due = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def hurry(self) -> None:
        """Let the action be due now."""
        self._due.set()

    def close(self) -> None:
        """Stop, and wait up to 5 s for an action under way."""
        self._stopped = True
        self._due.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopped:
                self._due.wait(self._action())
                self._due.clear()
        except Exception:
            log.exception("%s ends", self._thread.name)


def seconds_to_next(full: float, before: float) -> float:
    """The seconds, 0.25 to 1, after which to look at a ring again so that at most half of it is new then.

    full: the share of the ring that was new at the last look, which was `before` seconds after the one before it. If
    operations come faster, some go by, because looking must not cost more than a few per cent of a core.
    """
    return min(1.0, max(0.25, before * min(2.0, 0.5 / max(full, 1e-9))))
