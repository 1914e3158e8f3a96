"""Something that is done again and again, but more and more seldom."""

from __future__ import annotations

import time
from collections.abc import Callable

from paceline.calibration.report import FIRST_SECONDS, MOST_SECONDS, SHARE


class Seldom:
    """Calls `action` whenever `Periodic` finds it due: after FIRST_SECONDS, then after times that double.

    They end at MOST_SECONDS, and are longer where the action would take more than SHARE of the time.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        self._action = action
        self._seconds = 0.0  # from the last call to the next; 0 before the first one is due

    def __call__(self) -> float:
        """Do what is due; return the seconds until it is again."""
        if not self._seconds:
            self._seconds = FIRST_SECONDS
            return self._seconds
        begin = time.monotonic()
        self._action()
        self._seconds = min(2 * self._seconds, MOST_SECONDS)
        return max(self._seconds, (time.monotonic() - begin) / SHARE)
