"""A thread that does something again and again until it is told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_CLOSE_SECONDS = 5.0

log = logging.getLogger("paceline")


class Periodic:
    """Calls `action` at once, and again as many seconds later as it returns. An exception is logged and ends it."""

    def __init__(self, action: Callable[[], float], name: str) -> None:
        self._action = action
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop. An action under way is waited for, 5 s at most."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._action()):
                pass
        except Exception:
            log.exception("%s ends", self._thread.name)


def seconds_to_next(full: float, before: float) -> float:
    """When to look at a ring again, so that it is not more than half new then: 0.25 to 1 s.

    full: how much of it was new, `before` seconds after the look before that one. Of operations that come faster than
    that, some go by: looking is not to cost more than a few per cent of a core.
    """
    return min(1.0, max(0.25, before * min(2.0, 0.5 / max(full, 1e-9))))
