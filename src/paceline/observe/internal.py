"""Operations that Paceline starts for itself, to agree on times, to measure links, and to gather figures."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.observe.trace.event import Event

_REMEMBERED = 4096
"""Operations that are remembered: as many as the engine's ring holds."""
_SPANS = 64
"""Spans that are remembered."""


class InternalOperations:
    """The internal operations of one process. Figures leave them out, because no program asked for them."""

    def __init__(self) -> None:
        self._single: set[tuple[int, int]] = set()
        self._in_order: deque[tuple[int, int]] = deque()
        self._spans: deque[tuple[int, int, float]] = deque(maxlen=_SPANS)  # channel, first, end

    def add(self, channel: int, sequence: int) -> None:
        """Count a collective that is about to start as Paceline's own. sequence: its number in its group."""
        self._single.add((channel, sequence))
        self._in_order.append((channel, sequence))
        if len(self._in_order) > _REMEMBERED:
            self._single.discard(self._in_order.popleft())

    @contextmanager
    def span(self, channel: int, sequence: Callable[[], int]) -> Iterator[None]:
        """Count all operations that start in this group inside the context as Paceline's own.

        sequence: returns the number of the group's next collective.
        """
        first = sequence()
        self._spans.append((channel, first, math.inf))
        try:
            yield
        finally:
            self._spans.remove((channel, first, math.inf))
            self._spans.append((channel, first, sequence()))

    def __contains__(self, event: Event) -> bool:
        return (not event.point_to_point and (event.channel, event.sequence) in self._single) or any(
            channel == event.channel and first <= event.sequence < end for channel, first, end in tuple(self._spans)
        )
