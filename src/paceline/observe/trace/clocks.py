"""Estimates how far apart the machines' clocks are from the collectives themselves.

No rank completes an all-reduce before every rank has begun it. Each all-reduce that two machines share therefore bounds
the difference of their clocks from both sides (A. Duda, G. Harrus, Y. Haddad, G. Bernard, "Estimating Global Time in
Distributed Systems", ICDCS 1987). The tightest bounds of many are about the latency of one message apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from paceline.observe.trace.dump import Dump
from paceline.observe.trace.event import Event

MEETINGS = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"))
"""The collectives that no rank completes before every rank has begun them."""


class Meeting(NamedTuple):
    """One such collective as one rank saw it. Times are in ns on that rank's clock.

    channel: the group's number. sequence: the collective's number in the group. begin_ns, end_ns: when the rank called
    and completed it.
    """

    channel: int
    sequence: int
    begin_ns: int
    end_ns: int


class Clock(NamedTuple):
    """The ns by which a clock is ahead of the reference, and the largest error of that; inf if nothing is known."""

    ahead_ns: int
    error_ns: float


def clocks(seen: Iterable[tuple[str, Iterable[Meeting]]]) -> dict[str, Clock]:
    """Return the clock of every host, relative to that of the first.

    seen: for each rank its host and its meetings.

    A host that shares no meeting with the first is assumed to be on its clock, with an infinite error.
    """
    spans: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
    for host, meetings in seen:
        mine = spans.setdefault(host, {})
        for channel, sequence, begin, end in meetings:  # the latest begin and the earliest end on this host
            last, first = mine.get((channel, sequence), (begin, end))
            mine[channel, sequence] = max(last, begin), min(first, end)
    if not spans:
        return {}
    reference, *_ = spans.values()
    return {host: _against(reference, mine) if mine is not reference else Clock(0, 0) for host, mine in spans.items()}


def clocks_of(dumps: Sequence[Dump]) -> dict[str, Clock]:
    """Return the clocks of the dumps' hosts, relative to that of the first."""
    return clocks((dump.host, map(meeting, filter(is_meeting, dump.events))) for dump in dumps)


def aligned(dumps: Sequence[Dump]) -> list[Dump]:
    """Return the dumps with all times on the clock of the first one's host."""
    found = clocks_of(dumps)
    return [_moved(dump, -found[dump.host].ahead_ns) if found[dump.host].ahead_ns else dump for dump in dumps]


def is_meeting(event: Event) -> bool:
    """Return whether the event bounds clocks: a completed collective of the kinds in MEETINGS."""
    return event.state == "done" and event.collective in MEETINGS


def meeting(event: Event) -> Meeting:
    """Return the event as `clocks` takes it."""
    return Meeting(event.channel, event.sequence, event.enqueue_ns, event.end_ns)


_Spans = Mapping[tuple[int, int], tuple[int, int]]


def _against(reference: _Spans, mine: _Spans) -> Clock:
    lowest, highest = -math.inf, math.inf
    for key in reference.keys() & mine.keys():
        (there, done_there), (here, done_here) = reference[key], mine[key]
        lowest = max(lowest, here - done_there)
        highest = min(highest, done_here - there)
    if lowest > highest or math.isinf(lowest):
        return Clock(0, math.inf)  # the hosts share no meeting, or a clock was set meanwhile
    return Clock(round((lowest + highest) / 2), (highest - lowest) / 2)


def _moved(dump: Dump, shift: int) -> Dump:
    def at(moment: int) -> int:
        return moment + shift if moment else 0

    events = (
        e._replace(enqueue_ns=at(e.enqueue_ns), start_ns=at(e.start_ns), end_ns=at(e.end_ns)) for e in dump.events
    )
    requests = (request.moved(shift) for request in dump.requests)
    return replace(dump, events=tuple(events), requests=tuple(requests), written_ns=at(dump.written_ns))
