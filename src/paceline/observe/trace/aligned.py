"""Dumps of several machines on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.observe.trace.clocks import Clock, clocks, is_meeting, meeting
from paceline.observe.trace.dump import Dump


def clocks_of(dumps: Sequence[Dump]) -> dict[str, Clock]:
    """Return the clocks of the dumps' machines, relative to that of the first."""
    return clocks((dump.clocks, map(meeting, filter(is_meeting, dump.events))) for dump in dumps)


def aligned(dumps: Sequence[Dump]) -> list[Dump]:
    """Return the dumps with all times on the clock of the first one's machine."""
    found = clocks_of(dumps)
    return [_moved(dump, -found[dump.clocks.machine].ahead_ns) for dump in dumps]


def _moved(dump: Dump, shift: int) -> Dump:
    if not shift:
        return dump

    def at(moment: int) -> int:
        return moment + shift if moment else 0

    events = (
        e._replace(enqueue_ns=at(e.enqueue_ns), start_ns=at(e.start_ns), end_ns=at(e.end_ns)) for e in dump.events
    )
    requests = (request.moved(shift) for request in dump.requests)
    return replace(dump, events=tuple(events), requests=tuple(requests), written_ns=at(dump.written_ns))
