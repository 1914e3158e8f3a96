"""What the large calls of a group took on this rank, from the engine's events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from paceline.adapt.replanner import Call
from paceline.trace.event import Event, Row

Events = Callable[[int], Sequence[Row]]
"""Returns the engine's events with ids above the given one, oldest first."""


class Counted(NamedTuple):
    """A call, and its number among all operations of its group."""

    sequence: int
    call: Call


class CallTimes:
    """The seconds of calls, for as long as somebody asks for them."""

    def __init__(self, channel: int, events: Events) -> None:
        self._channel, self._events = channel, events
        self._known: dict[Counted, float] = {}
        self._seen = 0  # the number of the last event of such a call
        self._before = 0  # when that was over, CLOCK_REALTIME in nanoseconds

    def seconds(self, calls: Sequence[Counted], later: Sequence[Counted]) -> npt.NDArray[np.float64]:
        """Of these calls; negative where it is not over, or forgotten. later: calls that will be asked for."""
        wanted = {(one.sequence, one.call.collective): one for one in (*calls, *later)}
        self._known = {one: seconds for one, seconds in self._known.items() if one in wanted.values()}
        for event in map(Event._make, self._events(self._seen)):
            one = wanted.get((event.sequence, event.collective)) if event.channel == self._channel else None
            if one is None:
                continue
            if event.end_ns == 0:
                break
            # What overlaps with the call before counts once.
            self._known[one] = (event.end_ns - max(event.start_ns, self._before)) / 1e9
            self._before, self._seen = event.end_ns, event.id
        return np.array([self._known.get(one, -1.0) for one in calls])
