"""The ranks that keep others waiting: how often each was the last to come, and by how much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.formats.numbers import number, percent
from paceline.formats.sizes import show_seconds
from paceline.observe.figures import Figures
from paceline.observe.steps import SMALL
from paceline.observe.trace.clocks import Clock, Meeting, clocks

_TENSORS = 20
"""Names that a rank was most often the last to submit, and that are kept."""


@dataclass(frozen=True)
class Last:
    """The lateness of one rank: how often it was the last to come.

    share: the share of the `count` known collectives in which it was the last, 0 to 1. late_ms: how much later it came
    than the rank before it, on average; None if it never was the last. tensors: the names that it was most often the
    last to submit, and how often. untold: the share of the collectives of which nobody can say which rank was the
    last, as ranks came within the error of their machines' clocks. within_ms: that error; None if one is not known.
    """

    share: float
    count: int
    late_ms: float | None = None
    tensors: Mapping[str, int] = field(default_factory=dict)
    untold: float = 0.0
    within_ms: float | None = 0.0

    @property
    def told(self) -> str:
        """The base of the shares, such as "512 collectives known; 3 % within 0.1 ms, not told apart"."""
        known = f"{self.count} collectives known"
        if not self.untold:
            return known
        within = "as nothing is known of a clock" if self.within_ms is None else f"within {number(self.within_ms)} ms"
        return f"{known}; {percent(self.untold)} {within}, not told apart"


@dataclass(frozen=True)
class Lateness:
    """The lateness of all ranks in the calls that each of them has shown.

    count: how many these are. late: for each rank the calls in which it was the last: by how many ns it was later than
    the rank before it, and the name of the call, "" if it has none. untold, within_ns: as in `Last`, of all calls.
    """

    count: int
    late: Mapping[int, Sequence[tuple[float, str]]]
    untold: int = 0
    within_ns: float = 0.0


def arrived_last(after: Sequence[Figures], before: Mapping[int, Figures] | None = None) -> dict[int, Last]:
    """Return how often each rank was the last, by rank; the result is empty if nothing is known.

    If `before` is given, only calls since then count, unless there are none. See `lateness`.
    """
    found = lateness(after, before) if before else lateness(after)
    if before and not found.count:
        found = lateness(after)
    within_ms = found.within_ns / 1e6 if found.within_ns < math.inf else None
    return {rank: _summary(ones, found, within_ms) for rank, ones in found.late.items() if found.count}


def sentence(rank: int, host: str, share: float, seconds: float) -> str:
    """Return "Rank 2 on gamma arrives last in 98 % of the collectives, by 74 ms in the mean.", for these figures."""
    return (
        f"Rank {rank} on {host} arrives last in {100 * share:.0f} % of the collectives, by {show_seconds(seconds)} in "
        "the mean."
    )


def lateness(after: Sequence[Figures], before: Mapping[int, Figures] | None = None) -> Lateness:
    """Compare the moments at which all ranks of a group made the same call, by `paceline.observe.trace.clocks`.

    The calls are named requests if there are any, else collectives; small ones count only if all are. If `before` is
    given, only calls since then count.
    """
    calls = {f.rank: _calls(f) for f in after}
    clock = clocks((f.clocks, calls[f.rank]) for f in after)
    clock_of = {f.rank: (f.clocks.machine, clock[f.clocks.machine]) for f in after}
    since = {rank: figures.time_ns for rank, figures in (before or {}).items()}
    late: dict[int, list[tuple[float, str]]] = {f.rank: [] for f in after}
    count = untold = 0
    within = 0.0
    for (_, _, name), moments in _complete(after, calls).items():
        if before is not None and not any(moment > since.get(rank, math.inf) for rank, moment in moments.items()):
            continue
        rank, by, error = _last(moments, clock_of)
        count += 1
        within = max(within, error)
        if by > error:
            late[rank].append((by, name))
        else:
            untold += 1
    return Lateness(count, late, untold, within)


def _calls(figures: Figures) -> list[Meeting]:
    """The calls by which a rank is compared with others: those of its profile, where a report has one."""
    profile = figures.profile
    if profile is None:
        return list(figures.arrivals)
    if profile.requests:
        return [Meeting(r.channel, r.batch, r.submitted_ns, r.done_ns, r.name, r.bytes) for r in profile.requests]
    return profile.meetings


def _complete(
    after: Sequence[Figures], calls: Mapping[int, Sequence[Meeting]]
) -> dict[tuple[int, int, str], dict[int, int]]:
    """Return for each call that all ranks of its group have shown when each of them made it, by its own clock.

    Small calls are left out if there are larger ones, as they are more likely metrics and barriers than gradients.
    """
    least = SMALL if any(one.bytes >= SMALL for ones in calls.values() for one in ones) else 0
    sizes = {channel: group.size for f in after for channel, group in f.groups.items()}
    came: dict[tuple[int, int, str], dict[int, int]] = {}
    for rank, ones in calls.items():
        for one in ones:
            if one.bytes >= least:
                came.setdefault(one.key, {})[rank] = one.begin_ns
    return {key: moments for key, moments in came.items() if 1 < len(moments) == sizes.get(key[0])}


def _last(moments: Mapping[int, int], clock_of: Mapping[int, tuple[str, Clock]]) -> tuple[int, float, float]:
    """Return the rank that came last, by how many ns it was later than the one before it, and the error of that.

    The error is that against the rank from which it can be told least.
    """
    order = sorted((moment - clock_of[rank][1].ahead_ns, rank) for rank, moment in moments.items())
    latest, rank = order[-1]
    machine, clock = clock_of[rank]
    late = latest - order[-2][0]
    error = 0.0
    for moment, other in order[:-1]:
        where, its = clock_of[other]
        if where != machine:
            error = max(error, clock.error_ns + its.error_ns - (latest - moment - late))
    return rank, late, error


def _summary(late: Sequence[tuple[float, str]], found: Lateness, within_ms: float | None) -> Last:
    names = Counter(name for _, name in late if name)
    return Last(
        share=len(late) / found.count,
        count=found.count,
        late_ms=sum(by for by, _ in late) / len(late) / 1e6 if late else None,
        tensors=dict(sorted(names.items(), key=lambda item: (-item[1], item[0]))[:_TENSORS]),
        untold=found.untold / found.count,
        within_ms=within_ms,
    )
