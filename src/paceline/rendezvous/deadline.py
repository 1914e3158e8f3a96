"""A point in time that all steps of a rendezvous share."""

from __future__ import annotations

import time

from paceline.settings.parsers import TEN_DAYS

LAST_WORDS = 1.0
"""Seconds after the deadline of a meeting in which ranks still tell each other why it failed."""


class Deadline:
    """A point in time `seconds` from now on the monotonic clock, at most ten days, as poll cannot wait for a month."""

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = min(seconds, TEN_DAYS)
        self._end = time.monotonic() + self.seconds

    @classmethod
    def of(cls, limit: Deadline | float) -> Deadline:
        """Return `limit`, or if it is a number of seconds, the deadline that is so far from now."""
        return limit if isinstance(limit, Deadline) else cls(limit)

    def remaining(self) -> float:
        """Return the seconds that are left, never a negative number."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """True if the deadline has passed."""
        return time.monotonic() >= self._end

    def later(self, seconds: float) -> Deadline:
        """Return a deadline this many seconds after this one, or after now if this one has passed.

        Its `seconds` stay those of this one, as messages tell the limit that the user set.
        """
        later = Deadline(self.remaining() + seconds)
        later.seconds = self.seconds
        return later
