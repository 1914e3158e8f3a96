"""The ranks that compute notably longer than the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from paceline.formats.sizes import show_seconds

_NOTABLY = 1.1
"""The least ratio of the time that ranks compute to that of the others for which they are named."""
_NAMED = 3
"""Ranks that a sentence names one by one."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Ranks that compute longer than the others, by their numbers and hosts. At most half of all are slow.

    seconds: that they compute in a step, the median of theirs. others: the same of the other ranks. rest: how many
    those are.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    seconds: float
    others: float
    rest: int

    @property
    def sentence(self) -> str:
        """A clause such as "rank 2 on gamma computes 207 ms a step, the others 134 ms"."""
        one = len(self.ranks) == 1
        others = f"the other{'s' if self.rest > 1 else ''} {show_seconds(self.others)}"
        return f"{self.who} {'computes' if one else 'compute'} {show_seconds(self.seconds)} a step, {others}"

    @property
    def who(self) -> str:
        """Name the ranks, and the host if all are on one."""
        first, *more = map(str, self.ranks[:_NAMED])
        left = len(self.ranks) - _NAMED
        if left > 0:
            named = f"ranks {', '.join([first, *more])} and {left} more"
        else:
            named = f"ranks {', '.join([first, *more[:-1]])} and {more[-1]}" if more else f"rank {first}"
        hosts = set(self.hosts)
        return f"{named} on {hosts.pop()}" if len(hosts) == 1 else named


def slow(computed: Sequence[float], ranks: Sequence[tuple[int, str]]) -> Slow | None:
    """Return the ranks above the widest gap between the times, if that makes them notably slower; None if none are.

    computed: seconds of a step in which each rank computes. ranks: their numbers and hosts.
    """
    order = sorted(range(len(computed)), key=lambda place: -computed[place])
    gaps = [computed[before] - computed[after] for before, after in pairwise(order)]
    few = gaps[: len(order) // 2]
    if not few:
        return None
    count = 1 + max(range(len(few)), key=few.__getitem__)
    seconds, others = (median(computed[place] for place in some) for some in (order[:count], order[count:]))
    if others <= 0 or seconds < _NOTABLY * others:
        return None
    named = [ranks[place] for place in sorted(order[:count])]
    return Slow(tuple(rank for rank, _ in named), tuple(host for _, host in named), seconds, others, len(order) - count)
