"""The ranks that take notably longer than the others: to compute, to get their input, or to exchange data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from paceline.formats.sizes import show_seconds

_NOTABLY = 1.1
"""The least ratio of the time that ranks compute to that of the others for which they are named."""
COMPUTES, INPUT, EXCHANGES = "computes", "input", "exchanges"
"""The reasons for which a rank may take longer."""
_NAMED = 3
"""Ranks that a sentence names one by one."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Ranks that take longer than the others, by their numbers and hosts. At most half of all are slow.

    seconds: that they take in a step, the median of theirs. others: the same of the other ranks. rest: how many
    those are. by: COMPUTES, INPUT or EXCHANGES.
    """

    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    seconds: float
    others: float
    rest: int
    by: str = COMPUTES

    @property
    def sentence(self) -> str:
        """A clause such as "rank 2 on gamma computes 207 ms a step, the others 134 ms"."""
        s, their = ("s", "its") if len(self.ranks) == 1 else ("", "their")
        seconds, others = show_seconds(self.seconds), f"the other{'s' if self.rest > 1 else ''}"
        if self.by == INPUT:
            return f"{self.who} wait{s} {seconds} a step for {their} input, {others} {show_seconds(self.others)}"
        if self.by == EXCHANGES:
            return f"{self.who} exchange{s} data for {seconds} a step, {others} for {show_seconds(self.others)}"
        return f"{self.who} compute{s} {seconds} a step, {others} {show_seconds(self.others)}"

    @property
    def remedy(self) -> str:
        """The change after which they would be as quick as the others."""
        how = {COMPUTES: "computing", INPUT: "getting input", EXCHANGES: "exchanging data"}[self.by]
        return f"{self.who} {how} like the others"

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


def slow(taken: Sequence[float], ranks: Sequence[tuple[int, str]], by: str = COMPUTES) -> Slow | None:
    """Return the ranks above the widest gap between the times, if that makes them notably slower; None if none are.

    taken: seconds of a step that each rank takes. ranks: their numbers and hosts. by: what they take them for.
    """
    order = sorted(range(len(taken)), key=lambda place: -taken[place])
    gaps = [taken[before] - taken[after] for before, after in pairwise(order)]
    few = gaps[: len(order) // 2]
    if not few:
        return None
    count = 1 + max(range(len(few)), key=few.__getitem__)
    seconds, others = (median(taken[place] for place in some) for some in (order[:count], order[count:]))
    if seconds <= 0 or seconds < _NOTABLY * others or (by == COMPUTES and others <= 0):
        return None
    named = [ranks[place] for place in sorted(order[:count])]
    return Slow(
        tuple(rank for rank, _ in named), tuple(host for _, host in named), seconds, others, len(order) - count, by
    )
