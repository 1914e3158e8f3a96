"""The calls of a job's ranks, as its report has them, and the steps that they make up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from paceline.observe.profile import Profile
from paceline.observe.steps import SMALL, period

LEAST_STEPS = 4
"""Whole steps that a report must have."""
_SELDOM = 0.25
"""The share of the usual kind's calls below which a kind of call is no part of a step."""

Key = tuple[int, int, str]
"""A call, the same on all ranks: channel, number, and the name of a request or ""."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one rank, with seconds on a clock that all ranks share.

    issued: when the ranks had agreed to carry out a named request; for other calls, when the rank called.
    """

    key: Key
    kind: Hashable
    collective: str
    nbytes: int
    begin: float
    issued: float
    end: float


def calls_of(profile: Profile, shift: float, named: bool) -> list[Call]:
    """The calls of a rank that can be part of a step, in the order in which they began."""

    def moment(nanoseconds: int) -> float:
        return nanoseconds / 1e9 - shift

    if named:
        found = [
            Call(
                (r.channel, r.batch, r.name),
                r.name,
                r.collective,
                r.bytes,
                moment(r.submitted_ns),
                moment(r.issued_ns),
                moment(r.done_ns),
            )
            for r in profile.requests
        ]
    else:
        apart = {request.channel for request in profile.requests}
        found = [
            Call(
                (e.channel, e.sequence, ""),
                (e.channel, e.collective, e.bytes),
                e.collective,
                e.bytes,
                moment(e.begin_ns),
                moment(e.begin_ns),
                moment(e.end_ns),
            )
            for e in profile.exchanges
            if e.channel not in apart and e.bytes >= SMALL
        ]
    return sorted(found, key=lambda call: call.begin)


def steps_of(calls: Sequence[Call], named: bool, begins: Sequence[float]) -> list[list[Key]]:
    """The calls of each step, the oldest step first, as one rank made them. begins: of its steps, if that is known."""
    if named:
        return _by_name(calls)
    return _between(calls, begins) or _by_repetition(calls)


def _between(calls: Sequence[Call], begins: Sequence[float]) -> list[list[Key]]:
    """The newest steps that have the same calls, if a framework has told when steps begin."""
    steps = [[call for call in calls if begin <= call.begin < end] for begin, end in pairwise([*begins, math.inf])]
    found: list[list[Call]] = []
    for step in reversed(steps):
        kinds = Counter(call.kind for call in step)
        if step and (not found or kinds == Counter(call.kind for call in found[0])):
            found.insert(0, step)
        elif len(found) > LEAST_STEPS:
            break
        else:
            found = [step] if step else []
    return [[call.key for call in step] for step in found] if len(found) > LEAST_STEPS else []


def _by_name(calls: Sequence[Call]) -> list[list[Key]]:
    """Steps in which every name comes once."""
    times = Counter(call.kind for call in calls)
    often = max(times.values(), default=0)
    came: dict[Hashable, list[Call]] = {}
    for call in calls:
        if times[call.kind] >= _SELDOM * often:
            came.setdefault(call.kind, []).append(call)
    steps = min((len(ones) for ones in came.values()), default=0)
    rows = [[ones[len(ones) - steps + number] for ones in came.values()] for number in range(steps)]
    return _apart(rows)


def _by_repetition(calls: Sequence[Call]) -> list[list[Key]]:
    """Steps that are the same row of calls, cut where the program pauses longest."""
    times = Counter(call.kind for call in calls)
    usual = median(times[call.kind] for call in calls) if calls else 0
    for chosen in (list(calls), [call for call in calls if times[call.kind] >= _SELDOM * usual]):
        length = _period([call.kind for call in chosen])
        if not length:
            continue
        same = next(
            (n for n in range(length, len(chosen)) if chosen[-1 - n].kind != chosen[-1 - n + length].kind), len(chosen)
        )
        part = chosen[-same:]
        pauses = [0.0] * length
        for place in range(1, len(part)):
            pauses[place % length] += part[place].begin - max(call.end for call in part[max(0, place - length) : place])
        first = max(range(length), key=lambda place: pauses[place] / max(1, len(range(place, len(part), length))))
        rows = [part[place : place + length] for place in range(first, len(part) - length + 1, length)]
        return _apart(rows)
    return []


def _period(kinds: Sequence[Hashable]) -> int:
    """The length of the row that the newest calls repeat, for half of them or of a newer part; 0 if there is none."""
    while len(kinds) > LEAST_STEPS:
        if found := period(kinds):
            return found
        kinds = kinds[len(kinds) // 2 :]
    return 0


def _apart(rows: Sequence[Sequence[Call]]) -> list[list[Key]]:
    """The newest steps none of which begins before the one before it has."""
    kept = list(rows)
    for number in range(len(rows) - 1, 0, -1):
        if min(call.begin for call in rows[number]) <= max(call.begin for call in rows[number - 1]):
            kept = list(rows[number:])
            break
    return [[call.key for call in row] for row in kept]
