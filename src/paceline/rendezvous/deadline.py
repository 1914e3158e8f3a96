"""One point in time that everything in a rendezvous shares."""

from __future__ import annotations

import time

from paceline.settings.parsers import TEN_DAYS


class Deadline:
    """`seconds` from now, ten days at most (poll cannot wait for a month), on the monotonic clock."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = min(seconds, TEN_DAYS)
        self._end = time.monotonic() + self.seconds

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._end

    def later(self, seconds: float) -> Deadline:
        """A deadline this many seconds after this one."""
        return Deadline(self.remaining() + seconds)
