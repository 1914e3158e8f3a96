"""The one estimate of how far apart the machines' clocks are, with its error; all who compare times use it.

Ranks on different machines tell each other the time over their links, and note when the kernel took that in: see
`engine/link/peer_clock.hpp`. What comes back bounds the difference of two clocks from both sides. So do collectives: no
rank completes an all-reduce before every rank has begun it (A. Duda, G. Harrus, Y. Haddad, G. Bernard, "Estimating
Global Time in Distributed Systems", ICDCS 1987). Their bounds are wide if one rank is always late, and serve where the
links have said nothing.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from paceline.observe.trace.event import Event

MEETINGS = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"))
"""The collectives that no rank completes before every rank has begun them."""


class Meeting(NamedTuple):
    """One such collective as one rank saw it. Times are in ns on that rank's clock.

    channel: the group's number. sequence: the collective's number in the group, or that of a named request's batch.
    begin_ns, end_ns: when the rank called and completed it. name: that of a named request. bytes: of its buffer.
    """

    channel: int
    sequence: int
    begin_ns: int
    end_ns: int
    name: str = ""
    bytes: int = 0

    @property
    def key(self) -> tuple[int, int, str]:
        """Identifies the collective; the same on all ranks of the group."""
        return self.channel, self.sequence, self.name


@dataclass(frozen=True)
class Clocks:
    """The knowledge that a rank has of clocks, all CLOCK_REALTIME.

    machine: the machine whose clock its times are of, "" if it does not say. ahead: for other machines, the ns by which
    their clocks are ahead of this one, at least and at most.
    """

    machine: str = ""
    ahead: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def of(self, host: str) -> Clocks:
        """Return the same; if no machine is named, its host stands for it, as in files of older versions."""
        return self if self.machine else replace(self, machine=host)


class Clock(NamedTuple):
    """The ns by which a clock is ahead of the reference, and the largest error of that; inf if nothing is known."""

    ahead_ns: int
    error_ns: float


def clocks(seen: Iterable[tuple[Clocks, Iterable[Meeting]]]) -> dict[str, Clock]:
    """Return the clock of every machine, relative to that of the first.

    seen: for each rank what it knows of clocks, and its meetings.

    A clock is moved only where it is proven to differ: if it may be that of the first, it is taken for that. A machine
    of which nothing tells how far its clock is ahead is assumed to be on the first one's, with an infinite error.
    """
    spans: dict[str, dict[tuple[int, int, str], tuple[int, int]]] = {}
    told: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for known, meetings in seen:
        mine = spans.setdefault(known.machine, {})
        for one in meetings:  # the latest begin and the earliest end on this machine
            last, first = mine.get(one.key, (one.begin_ns, one.end_ns))
            mine[one.key] = max(last, one.begin_ns), min(first, one.end_ns)
        for other, (least, most) in known.ahead.items():
            told.setdefault((known.machine, other), []).append((least, most))
            told.setdefault((other, known.machine), []).append((-most, -least))
    if not spans:
        return {}
    reference = next(iter(spans))
    bounds = {pair: _within(ones) for pair, ones in told.items()}
    for machine, mine in spans.items():
        met = _met(spans[reference], mine)
        if machine == reference or met is None:
            continue
        found = _narrower(bounds.get((reference, machine)), met)
        bounds[reference, machine], bounds[machine, reference] = found, (-found[1], -found[0])
    return _all_from(reference, {pair: _clock(*ends) for pair, ends in bounds.items()}, spans)


def is_meeting(event: Event) -> bool:
    """Return whether the event bounds clocks: a completed collective of the kinds in MEETINGS."""
    return event.state == "done" and event.collective in MEETINGS


def meeting(event: Event) -> Meeting:
    """Return the event as `clocks` takes it."""
    return Meeting(event.channel, event.sequence, event.enqueue_ns, event.end_ns, bytes=event.bytes)


_Bounds = tuple[float, float]
_Spans = Mapping[tuple[int, int, str], tuple[int, int]]


def _within(ones: Iterable[_Bounds]) -> _Bounds:
    """Return what several ranks' bounds have in common; if they have nothing, the clocks drift, and it lies between."""
    lowest, highest = zip(*ones, strict=True)
    least, most = max(lowest), min(highest)
    return min(least, most), max(least, most)


def _met(reference: _Spans, mine: _Spans) -> _Bounds | None:
    least, most = -math.inf, math.inf
    for key in reference.keys() & mine.keys():
        (there, done_there), (here, done_here) = reference[key], mine[key]
        least = max(least, here - done_there)
        most = min(most, done_here - there)
    return (least, most) if -math.inf < least <= most else None  # without a meeting, or if a clock was set meanwhile


def _narrower(told: _Bounds | None, met: _Bounds) -> _Bounds:
    """Return both bounds together; what the links told last if they contradict each other, since a clock was set."""
    if told is None:
        return met
    least, most = max(told[0], met[0]), min(told[1], met[1])
    return (least, most) if least <= most else told


def _clock(least: float, most: float) -> Clock:
    if least <= 0 <= most:
        return Clock(0, max(-least, most))
    return Clock(round((least + most) / 2), (most - least) / 2)


def _all_from(reference: str, pairs: Mapping[tuple[str, str], Clock], machines: Iterable[str]) -> dict[str, Clock]:
    """Return the clocks of these machines, each by the way over others that has the least error (Dijkstra)."""
    beside: dict[str, list[tuple[str, Clock]]] = {}
    for (one, other), clock in pairs.items():
        beside.setdefault(one, []).append((other, clock))
    found: dict[str, Clock] = {}
    ways = [(0.0, reference, 0)]
    while ways:
        error, machine, ahead = heapq.heappop(ways)
        if machine in found:
            continue
        found[machine] = Clock(ahead, error)
        for other, clock in beside.get(machine, ()):
            if other not in found:
                heapq.heappush(ways, (error + clock.error_ns, other, ahead + clock.ahead_ns))
    return {machine: found.get(machine, Clock(0, math.inf)) for machine in machines}
