"""Operations that Paceline starts for itself: to agree on how long others took, to measure links, to gather figures."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from paceline.trace.event import Event

_REMEMBERED = 4096
"""Operations: as many as the engine's ring holds."""
_SPANS = 64


class InternalOperations:
    """Those of one process, told by whoever starts them. Figures leave them out: no program asked for them."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._single: set[tuple[int, int]] = set()
        self._in_order: deque[tuple[int, int]] = deque()
        self._spans: deque[tuple[int, int, float]] = deque(maxlen=_SPANS)  # channel, first, end

    def add_group(self, channel: int) -> None:
        """All operations of this group are Paceline's own."""
        self._groups.add(channel)

    def add(self, channel: int, sequence: int) -> None:
        """The collective of this number in its group is, which is about to start."""
        self._single.add((channel, sequence))
        self._in_order.append((channel, sequence))
        if len(self._in_order) > _REMEMBERED:
            self._single.discard(self._in_order.popleft())

    @contextmanager
    def span(self, channel: int, sequence: Callable[[], int]) -> Iterator[None]:
        """All that start in this group inside this context are. sequence: the number of the group's next collective."""
        first = sequence()
        self._spans.append((channel, first, math.inf))
        try:
            yield
        finally:
            self._spans.remove((channel, first, math.inf))
            self._spans.append((channel, first, sequence()))

    def has_group(self, channel: int) -> bool:
        """Whether all operations of this group are Paceline's own."""
        return channel in self._groups

    def __contains__(self, event: Event) -> bool:
        return (
            event.channel in self._groups
            or (not event.point_to_point and (event.channel, event.sequence) in self._single)
            or any(
                channel == event.channel and first <= event.sequence < end for channel, first, end in tuple(self._spans)
            )
        )
