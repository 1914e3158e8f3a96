"""The timeline of a pipeline's ranks, by list scheduling: every action begins as soon as its rank and data allow.

A rank does its actions in their order. What crosses from rank to rank begins to move once it is made and has been asked
for, one message after the other in each direction between two ranks, and its receiver waits for it. A sender is assumed
to wait for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.torch.partitioned.predicted.orders import Action, Orders
from paceline.torch.partitioned.predicted.speeds import Speeds

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


def timeline(orders: Orders, rank_of: Sequence[int], takes: Seconds, arrives: Seconds, speeds: Speeds) -> Timeline:
    """Return the timeline of these orders.

    rank_of: the rank of each stage. takes: seconds of an action at speed 1. arrives: seconds in which what it needs of
    another rank crosses. Raises ValueError if an action waits for one that never comes.
    """
    pipeline = _Pipeline(orders, rank_of, arrives)
    under_way: dict[int, _Work] = {}
    while moments := [*pipeline.begins.values(), *(work.end for work in under_way.values())]:
        now = min(moments)
        for rank in [rank for rank, work in under_way.items() if work.end <= now]:
            pipeline.end(rank, now)
            del under_way[rank]
        for rank in [rank for rank, begin in pipeline.begins.items() if begin <= now]:
            under_way[rank] = _Work(now, takes(pipeline.begin(rank, now)), 1.0)
        for rank, speed in speeds(under_way).items():
            under_way[rank] = under_way[rank].at(now, speed)
    return pipeline.timeline()


@dataclass(frozen=True, slots=True)
class _Work:
    """Seconds of work at speed 1 that were left at some time, and the speed since then."""

    since: float
    left: float
    speed: float

    @property
    def end(self) -> float:
        return self.since + self.left / self.speed

    def at(self, now: float, speed: float) -> _Work:
        """The same work, which goes on at this speed."""
        if speed == self.speed:
            return self
        return _Work(now, max(0.0, self.left - (now - self.since) * self.speed), speed)


class _Pipeline:
    """The pipeline so far. begins: when each rank that does nothing can begin its next action, where known."""

    def __init__(self, orders: Orders, rank_of: Sequence[int], arrives: Seconds) -> None:
        self._orders, self._rank_of, self._arrives = orders, rank_of, arrives
        self._spans: list[list[Span]] = [[] for _ in orders]
        self._began: dict[int, float] = {}
        self._ended: dict[tuple[str, int, int], float] = {}
        self._free: dict[tuple[int, int], float] = {}
        self.begins: dict[int, float] = {}
        self._look()

    def begin(self, rank: int, now: float) -> Action:
        """Let a rank begin its next action."""
        del self.begins[rank]
        self._began[rank] = now
        return self._next(rank)

    def end(self, rank: int, now: float) -> None:
        """Let a rank's action be over."""
        action = self._next(rank)
        self._spans[rank].append(Span(action, self._began.pop(rank), now))
        self._ended[_made(action)] = now
        self._look()

    def timeline(self) -> Timeline:
        """All that was done. Raises ValueError if that is not everything."""
        if any(len(done) < len(order) for done, order in zip(self._spans, self._orders, strict=True)):
            raise ValueError("the ranks' orders wait for each other")
        return Timeline(tuple(map(tuple, self._spans)))

    def _next(self, rank: int) -> Action:
        return self._orders[rank][len(self._spans[rank])]

    def _look(self) -> None:
        """See which ranks can begin."""
        for rank, order in enumerate(self._orders):
            if rank in self.begins or rank in self._began or len(self._spans[rank]) == len(order):
                continue
            ready = self._ready(rank, self._next(rank))
            if ready is not None:
                spans = self._spans[rank]
                self.begins[rank] = max(ready, spans[-1].end if spans else 0.0)

    def _ready(self, rank: int, action: Action) -> float | None:
        """Return the time at which a rank has what its next action needs; None where that has yet to be made."""
        source = _source(action, len(self._rank_of))
        if source is None:
            return 0.0
        if source not in self._ended:
            return None
        made, sender = self._ended[source], self._rank_of[source[1]]
        if sender == rank:
            return made
        asked = self._spans[rank][action.asked - 1].end if action.asked else 0.0
        sent = max(made, asked, self._free.get((sender, rank), 0.0))
        self._free[sender, rank] = sent + self._arrives(action)
        return self._free[sender, rank]


def _made(action: Action) -> tuple[str, int, int]:
    """The gradients of what came in are made by either kind of backward."""
    return "B" if action.kind == "I" else action.kind, action.stage, action.microbatch


def _source(action: Action, stages: int) -> tuple[str, int, int] | None:
    """Return the action that this one needs: of the stage before in a forward, of the one behind in a backward."""
    if action.kind == "F":
        return ("F", action.stage - 1, action.microbatch) if action.stage else None
    if action.kind == "W" or action.stage + 1 == stages:
        return None
    return "B", action.stage + 1, action.microbatch
