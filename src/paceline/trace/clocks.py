"""How far apart the machines' clocks are, told from the collectives themselves.

No rank is done with an all-reduce before every rank has begun it. Each one that two machines share thus bounds the
difference of their clocks from both sides (A. Duda, G. Harrus, Y. Haddad, G. Bernard, "Estimating Global Time in
Distributed Systems", ICDCS 1987); of many, the tightest bounds are about the latency of a message apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from paceline.trace.dump import Dump
from paceline.trace.event import Event

MEETINGS = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"))
"""Collectives that nobody leaves before everybody has come."""


class Meeting(NamedTuple):
    """One of them, as one rank saw it: the group's channel, its number there, and when that rank called and left it."""

    channel: int
    sequence: int
    begin_ns: int
    end_ns: int


class Clock(NamedTuple):
    """Nanoseconds by which a clock is ahead of the reference, and how wrong that may be (inf: nothing is known)."""

    ahead_ns: int
    error_ns: float


def clocks(seen: Iterable[tuple[str, Iterable[Meeting]]]) -> dict[str, Clock]:
    """The clock of every host, against that of the first. seen: per rank its host and its meetings.

    Hosts that share no meeting with the first are taken as they are, with an infinite error.
    """
    spans: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
    for host, meetings in seen:
        mine = spans.setdefault(host, {})
        for channel, sequence, begin, end in meetings:  # a host's last to come and first to leave
            last, first = mine.get((channel, sequence), (begin, end))
            mine[channel, sequence] = max(last, begin), min(first, end)
    if not spans:
        return {}
    reference, *_ = spans.values()
    return {host: _against(reference, mine) if mine is not reference else Clock(0, 0) for host, mine in spans.items()}


def clocks_of(dumps: Sequence[Dump]) -> dict[str, Clock]:
    """The clocks of the dumps' hosts, against that of the first."""
    return clocks((dump.host, map(meeting, filter(is_meeting, dump.events))) for dump in dumps)


def aligned(dumps: Sequence[Dump]) -> list[Dump]:
    """The dumps with all times on the clock of the first one's host."""
    found = clocks_of(dumps)
    return [_moved(dump, -found[dump.host].ahead_ns) if found[dump.host].ahead_ns else dump for dump in dumps]


def is_meeting(event: Event) -> bool:
    """Whether it bounds clocks: a collective of that kind, and over."""
    return event.state == "done" and event.collective in MEETINGS


def meeting(event: Event) -> Meeting:
    """What `clocks` takes."""
    return Meeting(event.channel, event.sequence, event.enqueue_ns, event.end_ns)


_Spans = Mapping[tuple[int, int], tuple[int, int]]


def _against(reference: _Spans, mine: _Spans) -> Clock:
    lowest, highest = -math.inf, math.inf
    for key in reference.keys() & mine.keys():
        (there, done_there), (here, done_here) = reference[key], mine[key]
        lowest = max(lowest, here - done_there)
        highest = min(highest, done_here - there)
    if lowest > highest or math.isinf(lowest):
        return Clock(0, math.inf)  # nothing in common, or a clock that was set meanwhile
    return Clock(round((lowest + highest) / 2), (highest - lowest) / 2)


def _moved(dump: Dump, shift: int) -> Dump:
    def at(moment: int) -> int:
        return moment + shift if moment else 0

    events = (
        e._replace(enqueue_ns=at(e.enqueue_ns), start_ns=at(e.start_ns), end_ns=at(e.end_ns)) for e in dump.events
    )
    requests = (request.moved(shift) for request in dump.requests)
    return replace(dump, events=tuple(events), requests=tuple(requests), written_ns=at(dump.written_ns))
