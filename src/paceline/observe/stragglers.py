"""The ranks that keep others waiting: how often each was the last to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.observe.figures import Figures
from paceline.observe.trace.clocks import clocks


@dataclass(frozen=True)
class Last:
    """The lateness of one rank: how often it was the last to come.

    share: the share of the `count` known collectives, 0 to 1. late_ms: how much later it came than the rank before it,
    on average; None if only the ranks themselves noticed. tensors: the names that it was most often the last to
    submit, and how often.
    """

    share: float
    count: int
    late_ms: float | None = None
    tensors: Mapping[str, int] = field(default_factory=dict)


def arrived_last(after: Sequence[Figures], before: Mapping[int, Figures] | None = None) -> dict[int, Last]:
    """Return how often each rank was the last, by rank; the result is empty if nothing is known.

    If `before` is given, only what happened since counts, unless nothing did. For named requests the ranks notice
    themselves who was last. For collectives without a name, the ranks' times of the last few hundred calls are compared
    if all ranks of a group have given theirs.
    """
    earlier = before or {}
    counts = {f.rank: f.last_count - (earlier[f.rank].last_count if f.rank in earlier else 0) for f in after}
    if not sum(counts.values()):
        counts = {f.rank: f.last_count for f in after}
    total = sum(counts.values())
    if not total:
        return _by_time(after)
    return {f.rank: Last(counts[f.rank] / total, total, None, dict(f.last)) for f in after}


def _by_time(after: Sequence[Figures]) -> dict[int, Last]:
    clock = clocks((f.host, f.arrivals) for f in after)
    sizes = {channel: group.size for f in after for channel, group in f.groups.items()}
    came: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for f in after:
        for one in f.arrivals:
            moment = one.begin_ns - clock[f.host].ahead_ns
            came.setdefault((one.channel, one.sequence), []).append((moment, f.rank))
    late: dict[int, list[int]] = {f.rank: [] for f in after}
    count = 0
    for (channel, _), moments in came.items():
        if len(moments) > 1 and len(moments) == sizes.get(channel):
            count += 1
            (second, _), (last, rank) = sorted(moments)[-2:]
            late[rank].append(last - second)
    if not count:
        return {}
    return {
        rank: Last(len(times) / count, count, sum(times) / len(times) / 1e6 if times else None)
        for rank, times in late.items()
    }
