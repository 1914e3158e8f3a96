"""Prove that a plan is right.

The buffer is cut at every boundary that the plan mentions. For each of these elementary intervals the proof tracks
which ranks' contributions the copy of each rank holds. A copy that was given away holds nothing any more, so no
contribution can be counted twice, and none is ever lost silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import groupby, pairwise
from operator import itemgetter

from paceline.plan.ir import Level, Plan, Range, Reduce, block

Ownership = tuple[tuple[Range, int], ...]


class PlanError(ValueError):
    """A plan is not an all-reduce.

    `level` and `reduce` (indices) and `interval` say where; each is None where none is at fault.
    """

    def __init__(
        self,
        plan: Plan,
        problem: str,
        *,
        level: int | None = None,
        reduce: int | None = None,
        interval: Range | None = None,
    ) -> None:
        self.level, self.reduce, self.interval = level, reduce, interval
        place = [f"plan {plan.name!r} for {plan.world} ranks"]
        if level is not None:
            place.append(f"level {level}")
        if level is not None and reduce is not None:
            place.append(f"reduce {reduce} ({plan.levels[level][reduce]})")
        if interval is not None:
            place.append(f"interval {interval}")
        super().__init__(f"{', '.join(place)}: {problem}")


class _Cells:
    """The elementary intervals of a plan, left to right."""

    def __init__(self, plan: Plan, extra: Iterable[Range] = ()) -> None:
        cuts = {Fraction(0), Fraction(1)}
        for part in (*(step.range for level in plan.levels for step in level), *extra):
            cuts.update((part.lo, part.hi))
        self.ranges = [Range(lo, hi) for lo, hi in pairwise(sorted(cuts))]
        self._index = {cut: index for index, cut in enumerate(sorted(cuts))}

    def of(self, part: Range) -> range:
        return range(self._index[part.lo], self._index[part.hi])


def verify(plan: Plan) -> Ownership:
    """Prove that `plan` is an all-reduce, and return which rank owns which range after the reduce-scatter.

    The ranges of the result are in order, cover the whole buffer and are as long as possible.
    Raises PlanError with the level, reduce and interval of the first fault.
    """
    _check_form(plan)
    cells = _Cells(plan)
    for number, level in enumerate(plan.levels):
        _check_conflicts(plan, number, level, cells)
    owners = _reduce_scatter(plan, cells)
    verify_all_gather(plan, owners)
    return owners


def verify_blocks(plan: Plan) -> None:
    """Prove `plan` as `verify` does, and that rank i ends as the owner of `[i/n, (i+1)/n)`.

    All-gather and reduce-scatter need that. Raises PlanError as `verify` does, and for a wrong owner.
    """
    for part, owner in verify(plan):
        mine = block(owner, plan.world)
        if part.lo < mine.lo or part.hi > mine.hi:
            raise PlanError(plan, f"rank {owner} ends as the owner, but its block is {mine}", interval=part)


def verify_all_gather(plan: Plan, owners: Ownership) -> None:
    """Prove that the levels, read backwards with broadcasts, bring everything that `owners` have to every rank.

    Raises PlanError where an owner would send what it does not have, or where a rank never receives an interval.
    """
    _check_form(plan)
    cells = _Cells(plan, (part for part, _ in owners))
    complete: list[set[int]] = [set() for _ in cells.ranges]
    for part, owner in owners:
        for cell in cells.of(part):
            complete[cell].add(owner)
    for number, level in reversed(list(enumerate(plan.levels))):
        arriving: list[tuple[int, tuple[int, ...]]] = []
        for index, step in enumerate(level):
            for cell in cells.of(step.range):
                if step.owner not in complete[cell]:
                    problem = f"in the all-gather rank {step.owner} sends what it has not received yet"
                    raise PlanError(plan, problem, level=number, reduce=index, interval=cells.ranges[cell])
                arriving.append((cell, step.holders))
        for cell, holders in arriving:
            complete[cell].update(holders)
    for interval, ranks in zip(cells.ranges, complete, strict=True):
        if len(ranks) < plan.world:
            missing = _names(rank for rank in range(plan.world) if rank not in ranks)
            raise PlanError(plan, f"the all-gather never brings it to {missing}", interval=interval)


def _check_form(plan: Plan) -> None:
    if plan.world < 1:
        raise PlanError(plan, "a plan needs at least one rank")
    for number, level in enumerate(plan.levels):
        for index, step in enumerate(level):
            problem = _malformed(step, plan.world)
            if problem:
                raise PlanError(plan, problem, level=number, reduce=index, interval=step.range)


def _malformed(step: Reduce, world: int) -> str:
    if not 0 <= step.range.lo < step.range.hi <= 1:
        return "a range must satisfy 0 <= lo < hi <= 1"
    if not step.holders:
        return "it has no holders"
    strangers = [rank for rank in (*step.holders, step.owner) if not 0 <= rank < world]
    return f"there is no rank {strangers[0]}" if strangers else ""


def _check_conflicts(plan: Plan, number: int, level: Level, cells: _Cells) -> None:
    """Check that a rank takes part in only one Reduce of a level for any interval, as these have no order."""
    busy: dict[tuple[int, int], int] = {}
    for index, step in enumerate(level):
        for cell in cells.of(step.range):
            for rank in {*step.holders, step.owner}:
                other = busy.setdefault((cell, rank), index)
                if other != index:
                    problem = f"rank {rank} is also in reduce {other} ({level[other]}) of this level"
                    raise PlanError(plan, problem, level=number, reduce=index, interval=cells.ranges[cell])


def _reduce_scatter(plan: Plan, cells: _Cells) -> Ownership:
    # held[cell][rank]: the ranks whose contributions that copy holds, one bit each; 0 once it was given away.
    held = [[1 << rank for rank in range(plan.world)] for _ in cells.ranges]
    for number, level in enumerate(plan.levels):
        for index, step in enumerate(level):
            for cell in cells.of(step.range):
                problem = _combine(step, held[cell])
                if problem:
                    raise PlanError(plan, problem, level=number, reduce=index, interval=cells.ranges[cell])
    owned = [(part, _owner(plan, part, copies)) for part, copies in zip(cells.ranges, held, strict=True)]
    return tuple(
        (Range(run[0].lo, run[-1].hi), owner)
        for owner, pieces in groupby(owned, key=itemgetter(1))
        for run in [[part for part, _ in pieces]]
    )


def _combine(step: Reduce, copies: list[int]) -> str:
    """Run one Reduce on the copies of one interval; return what is wrong with it, or an empty string."""
    joined = 0
    for holder in step.holders:
        if not copies[holder]:
            return f"rank {holder} has given its copy away in an earlier level"
        if joined & copies[holder]:
            return f"the contributions of {_names(_members(joined & copies[holder]))} are counted twice"
        joined |= copies[holder]
    if step.owner not in step.holders and copies[step.owner]:
        lost = _names(_members(copies[step.owner]))
        return f"the owner is not a holder, so the contributions of {lost} in its copy would be lost"
    for holder in step.holders:
        copies[holder] = 0
    copies[step.owner] = joined
    return ""


def _owner(plan: Plan, interval: Range, copies: list[int]) -> int:
    live = [rank for rank, copy in enumerate(copies) if copy]
    if len(live) != 1:
        problem = f"its contributions are still spread over {_names(live)} after the last level"
        raise PlanError(plan, problem, interval=interval)
    # No Reduce lost a contribution, so the only copy left holds them all.
    return live[0]


def _members(mask: int) -> Iterator[int]:
    return (rank for rank in range(mask.bit_length()) if mask >> rank & 1)


def _names(ranks: Iterable[int]) -> str:
    listed = [str(rank) for rank in ranks]
    return f"rank {listed[0]}" if len(listed) == 1 else f"ranks {', '.join(listed)}"
