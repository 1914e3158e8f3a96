"""How far apart the machines' clocks are, told from the collectives themselves.

No rank is done with an all-reduce before every rank has begun it. Each one that two machines share thus bounds the
difference of their clocks from both sides (A. Duda, G. Harrus, Y. Haddad, G. Bernard, "Estimating Global Time in
Distributed Systems", ICDCS 1987); of many, the tightest bounds are about the latency of a message apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paceline.trace.dump import Dump

_MEETINGS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that nobody leaves before everybody has come."""


class Clock(NamedTuple):
    """Nanoseconds by which a clock is ahead of the reference, and how wrong that may be (inf: nothing is known)."""

    ahead_ns: int
    error_ns: float


def clocks(dumps: Sequence[Dump]) -> dict[str, Clock]:
    """The clock of every host, against that of the first dump. Hosts that share no collective with it are taken as they
    are, with an infinite error."""
    spans: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}
    for dump in dumps:
        _add(spans.setdefault(dump.host, {}), dump)
    if not dumps:
        return {}
    reference = spans[dumps[0].host]
    return {host: _against(reference, mine) if mine is not reference else Clock(0, 0) for host, mine in spans.items()}


def _add(spans: dict[tuple[int, int], tuple[int, int]], dump: Dump) -> None:
    """For each collective of a host its last beginning and its first end."""
    for event in dump.events:
        if event.state == "done" and event.collective in _MEETINGS:
            key = (event.channel, event.sequence)
            begin, end = spans.get(key, (event.enqueue_ns, event.end_ns))
            spans[key] = (max(begin, event.enqueue_ns), min(end, event.end_ns))


def _against(
    reference: Mapping[tuple[int, int], tuple[int, int]], mine: Mapping[tuple[int, int], tuple[int, int]]
) -> Clock:
    lowest, highest = -math.inf, math.inf
    for key in reference.keys() & mine.keys():
        (there, done_there), (here, done_here) = reference[key], mine[key]
        lowest = max(lowest, here - done_there)
        highest = min(highest, done_here - there)
    if lowest > highest or math.isinf(lowest):
        return Clock(0, math.inf)  # nothing in common, or a clock that was set meanwhile
    return Clock(round((lowest + highest) / 2), (highest - lowest) / 2)
