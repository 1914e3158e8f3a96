"""The parts of a recorded job's steps, rank by rank, on the clock that all ranks share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from paceline.observe.spans import covered
from paceline.simulate.recorded import Call, Key
from paceline.simulate.recording import Recording

_WAITED = 0.5
"""The share of the time in which calls were under way before a rank's last submission that it must have waited, so that
it counts as a program that waits for each call at once."""
_AT_ONCE = 1.2
"""Calls that are under way at a time, in the mean, above which a program does not wait for each of them at once."""


class Early(NamedTuple):
    """A time before a rank's last submission in which a call was under way. all_called: all ranks had made it."""

    begin: float
    all_called: float
    end: float


@dataclass(frozen=True, slots=True)
class RankStep:
    """One step of one rank, in seconds on the clock of all ranks.

    begin: the end of the step before. sent: the first submission. ready: the last one. all_ready: the last rank's last
    one. end: everything was exchanged. negotiation: of the time from `all_ready` to `end`, that in which nothing of
    this rank was carried out. before: the times before `ready` in which calls were under way, one after the other.
    under_way: the seconds of all these calls, which are more than those of `before` where calls are under way at once.
    """

    begin: float
    sent: float
    ready: float
    all_ready: float
    end: float
    negotiation: float
    before: tuple[Early, ...]
    under_way: float

    @property
    def early(self) -> float:
        """Seconds before `ready` in which calls were under way."""
        return sum(one.end - one.begin for one in self.before)

    @property
    def early_last(self) -> float:
        """Seconds of `early` until all ranks had made the call."""
        return sum(one.all_called - one.begin for one in self.before)


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of a step, as means over ranks and steps; they add up to it.

    computation: the rank computed, whatever else went on. data: it waited for a batch of Paceline's loaders. last_rank:
    it waited for ranks that had not called. negotiation: it waited until the ranks had agreed. transfer: it waited for
    bytes.
    """

    computation: float
    data: float
    last_rank: float
    negotiation: float
    transfer: float

    @property
    def step(self) -> float:
        """Seconds of the whole step."""
        return self.computation + self.data + self.last_rank + self.negotiation + self.transfer


def rank_steps(run: Recording) -> tuple[tuple[RankStep, ...], ...]:
    """Return the steps of every rank, the oldest first; all ranks have the same number."""
    found: list[list[RankStep]] = [[] for _ in run.calls]
    for last_row, row in pairwise(run.rows):
        called = {key: max(one[key].begin for one in run.calls) for key in row}
        all_ready = max(called.values())
        for rank, one in enumerate(run.calls):
            calls = [one[key] for key in row]
            begin = max(one[key].end for key in last_row)
            ready = max(call.begin for call in calls)
            end = max(call.end for call in calls)
            turn = min(max(all_ready, ready), end)
            carried = covered((max(call.issued, turn), call.end) for call in calls)
            sent = min(call.begin for call in calls)
            before = _early(calls, called, begin, ready)
            under_way = sum(max(0.0, min(call.end, ready) - max(call.begin, begin)) for call in calls)
            found[rank].append(RankStep(begin, sent, ready, turn, end, end - turn - carried, before, under_way))
    return tuple(map(tuple, found))


def parts(steps: Sequence[Sequence[RankStep]], exposed: Sequence[float], data: float) -> tuple[Parts, bool]:
    """Return the parts of a step, and whether the program waits for each call at once.

    exposed: the seconds of a step for which each rank was seen to wait. data: the mean seconds of a step in which ranks
    waited for batches.
    """
    whole = [one for rank in steps for one in rank]
    tail = fmean(one.end - one.ready for one in whole)
    early = fmean(one.early for one in whole)
    alone = fmean(one.under_way for one in whole) <= _AT_ONCE * early
    blocking = early > 0 and alone and fmean(exposed) >= tail + _WAITED * early
    computed = fmean(one.ready - one.begin for one in whole)
    last = fmean(one.all_ready - one.ready for one in whole)
    negotiation = fmean(one.negotiation for one in whole)
    transfer = fmean(one.end - one.all_ready for one in whole) - negotiation
    if blocking:
        early_last = fmean(one.early_last for one in whole)
        computed, last, transfer = computed - early, last + early_last, transfer + early - early_last
    data = min(max(0.0, data), max(0.0, computed))
    return Parts(computed - data, data, last, negotiation, transfer), blocking


def spans_of(one: RankStep, blocking: bool) -> Iterator[tuple[str, float, float]]:
    """Yield the parts of a step of one rank in order of time, each by its name in `Parts`, its begin and its end.

    blocking: as `parts` returns it. Waits for batches are in the computation.
    """
    at = one.begin
    for wait in one.before if blocking else ():
        yield "computation", at, wait.begin
        yield "last_rank", wait.begin, wait.all_called
        yield "transfer", wait.all_called, wait.end
        at = wait.end
    agreed = one.all_ready + one.negotiation
    yield "computation", at, max(at, one.ready)
    yield "last_rank", max(at, one.ready), one.all_ready
    yield "negotiation", one.all_ready, agreed
    yield "transfer", agreed, one.end


def computed_by_rank(steps: Sequence[Sequence[RankStep]], data: Sequence[float], blocking: bool) -> list[float]:
    """Return the seconds of a step in which each rank computes: the median, as one long step makes no slow rank.

    data: the mean seconds of a step in which each rank waited for batches. blocking: as `parts` returns it.
    """
    found = (median(one.ready - one.begin - (one.early if blocking else 0.0) for one in rank) for rank in steps)
    return [max(0.0, whole - waited) for whole, waited in zip(found, data, strict=True)]


def exchanged_by_rank(steps: Sequence[Sequence[RankStep]], blocking: bool) -> list[float]:
    """Return the seconds of a step in which each rank waits for bytes: the median, as in `computed_by_rank`."""
    found = (
        median(
            one.end - one.all_ready - one.negotiation + ((one.early - one.early_last) if blocking else 0.0)
            for one in rank
        )
        for rank in steps
    )
    return [max(0.0, seconds) for seconds in found]


def window(steps: Sequence[Sequence[RankStep]]) -> float:
    """Return the share of a step that passes before its first tensor can be transferred, 0 to 1.

    Delays have the highest impact then: the "load-imbalance susceptible window" of Pumma, Buono, Checconi, Que, Feng,
    "Alleviating Load Imbalance in Data Processing for Large-Scale Deep Learning", CCGRID 2020, section V-B.
    """
    rows = list(zip(*steps, strict=True))
    passed = fmean(max(one.sent for one in row) - one.begin for row in rows for one in row)
    return min(1.0, max(0.0, passed / fmean(one.end - one.begin for row in rows for one in row)))


def _early(calls: Sequence[Call], called: Mapping[Key, float], begin: float, until: float) -> tuple[Early, ...]:
    """The times from `begin` to `until` in which calls were under way; of calls at once, the earlier one counts."""
    found, at = [], begin
    for call in sorted(calls, key=lambda call: call.begin):
        first, last = max(call.begin, at), min(call.end, until)
        if last > first:
            found.append(Early(first, min(max(called[call.key], first), last), last))
            at = last
    return tuple(found)
