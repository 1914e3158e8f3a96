"""When each rank of a pipeline does what, by list scheduling: every action begins as soon as its rank and data allow.

A rank does its actions in their order. What crosses from rank to rank begins to move once it is made and has been asked
for, one message after the other in each direction between two ranks, and its receiver waits for it. A sender is assumed
to wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.torch.partitioned.predicted.orders import Action, Orders

Seconds = Callable[[Action], float]


@dataclass(frozen=True, slots=True)
class Span:
    """An action of a rank, and the seconds at which it begins and ends."""

    action: Action
    begin: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """The spans of each rank, in order."""

    spans: tuple[tuple[Span, ...], ...]

    @property
    def seconds(self) -> float:
        """Seconds until the last action is over."""
        return max((span.end for spans in self.spans for span in spans), default=0.0)

    @property
    def bubble(self) -> float:
        """The share of all ranks' time, until the last action is over, in which they do nothing."""
        busy = sum(span.end - span.begin for spans in self.spans for span in spans)
        whole = len(self.spans) * self.seconds
        return 1 - busy / whole if whole else 0.0

    def last(self, stage: int) -> Span:
        """The last action of a stage."""
        return max((span for spans in self.spans for span in spans if span.action.stage == stage), key=lambda s: s.end)


def timeline(orders: Orders, rank_of: Sequence[int], takes: Seconds, arrives: Seconds) -> Timeline:
    """Return the timeline of these orders.

    rank_of: the rank of each stage. takes: seconds of an action. arrives: seconds in which what it needs of another
    rank crosses. Raises ValueError if an action waits for one that never comes.
    """
    spans: list[list[Span]] = [[] for _ in orders]
    ended: dict[tuple[str, int, int], float] = {}
    free: dict[tuple[int, int], float] = {}
    left = sum(map(len, orders))
    while left:
        before = left
        for rank, order in enumerate(orders):
            while len(spans[rank]) < len(order):
                action = order[len(spans[rank])]
                begin = spans[rank][-1].end if spans[rank] else 0.0
                source = _source(action, len(rank_of))
                if source is not None:
                    if source not in ended:
                        break
                    ready, sender = ended[source], rank_of[source[1]]
                    if sender != rank:
                        asked = spans[rank][action.asked - 1].end if action.asked else 0.0
                        sent = max(ready, asked, free.get((sender, rank), 0.0))
                        ready = free[sender, rank] = sent + arrives(action)
                    begin = max(begin, ready)
                span = Span(action, begin, begin + takes(action))
                spans[rank].append(span)
                ended[_made(action)] = span.end
                left -= 1
        if left == before:
            raise ValueError("the ranks' orders wait for each other")
    return Timeline(tuple(map(tuple, spans)))


def _made(action: Action) -> tuple[str, int, int]:
    """The gradients of what came in are made by either kind of backward."""
    return "B" if action.kind == "I" else action.kind, action.stage, action.microbatch


def _source(action: Action, stages: int) -> tuple[str, int, int] | None:
    """What an action needs: of the stage before it in a forward, of the one behind it in a backward."""
    if action.kind == "F":
        return ("F", action.stage - 1, action.microbatch) if action.stage else None
    if action.kind == "W" or action.stage + 1 == stages:
        return None
    return "B", action.stage + 1, action.microbatch
