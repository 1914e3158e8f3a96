"""Planted errors are caught, and named."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.plan.binomial import binomial
from paceline.plan.direct import direct
from paceline.plan.flat import flat
from paceline.plan.halving_doubling import halving_doubling
from paceline.plan.ir import WHOLE, Level, Plan, Range, Reduce, block
from paceline.plan.ring import ring
from paceline.plan.verify import PlanError, verify, verify_all_gather, verify_blocks

LOW, HIGH = WHOLE.halves()


@st.composite
def spots(draw: st.DrawFn, least: int = 2) -> tuple[Plan, int, int]:
    """A right plan, and the level and number of one of its Reduces."""
    planner = draw(st.sampled_from([direct, ring, halving_doubling, binomial, flat]))
    plan = planner(draw(st.integers(least, 13)))
    level = draw(st.integers(0, len(plan.levels) - 1))
    return plan, level, draw(st.integers(0, len(plan.levels[level]) - 1))


def planted(plan: Plan, level: int, index: int, *instead: Reduce) -> Plan:
    steps = plan.levels[level]
    changed: Level = (*steps[:index], *instead, *steps[index + 1 :])
    return replace(plan, levels=(*plan.levels[:level], changed, *plan.levels[level + 1 :]))


def make(world: int, *levels: Level) -> Plan:
    return Plan(world, "hand-made", levels)


@given(spots())
def test_dropped_reduce(spot: tuple[Plan, int, int]) -> None:
    with pytest.raises(PlanError) as caught:
        verify(planted(*spot))
    assert caught.value.interval is not None


@given(spots())
def test_dropped_level(spot: tuple[Plan, int, int]) -> None:
    plan, level, _ = spot
    with pytest.raises(PlanError):
        verify(replace(plan, levels=plan.levels[:level] + plan.levels[level + 1 :]))


@given(spots())
def test_repeated_level(spot: tuple[Plan, int, int]) -> None:
    plan, level, _ = spot
    with pytest.raises(PlanError, match="given its copy away"):
        verify(replace(plan, levels=(*plan.levels[: level + 1], *plan.levels[level:])))


@given(spots(), st.data())
def test_doubled_holder(spot: tuple[Plan, int, int], data: st.DataObject) -> None:
    plan, level, index = spot
    step = plan.levels[level][index]
    again = data.draw(st.sampled_from(step.holders))
    with pytest.raises(PlanError, match="counted twice") as caught:
        verify(planted(plan, level, index, replace(step, holders=(*step.holders, again))))
    assert (caught.value.level, caught.value.reduce) == (level, index)


@given(spots(), st.data())
def test_missing_holder(spot: tuple[Plan, int, int], data: st.DataObject) -> None:
    plan, level, index = spot
    step = plan.levels[level][index]
    gone = data.draw(st.sampled_from(step.holders))
    rest = tuple(holder for holder in step.holders if holder != gone)
    with pytest.raises(PlanError):
        verify(planted(plan, level, index, replace(step, holders=rest)))


@given(spots(least=3), st.data())
def test_foreign_holder(spot: tuple[Plan, int, int], data: st.DataObject) -> None:
    plan, level, index = spot
    step = plan.levels[level][index]
    foreign = [rank for rank in range(plan.world) if rank not in step.holders]
    if foreign:
        holders = (*step.holders, data.draw(st.sampled_from(foreign)))
        with pytest.raises(PlanError):
            verify(planted(plan, level, index, replace(step, holders=holders)))


@given(spots(), st.data())
def test_wrong_owner(spot: tuple[Plan, int, int], data: st.DataObject) -> None:
    """In the last level another owner may do as well, though not for a reduce-scatter."""
    plan, level, index = spot
    step = plan.levels[level][index]
    wrong = data.draw(st.sampled_from([rank for rank in range(plan.world) if rank != step.owner]))
    broken = planted(plan, level, index, replace(step, owner=wrong))
    last = level == len(plan.levels) - 1
    with pytest.raises(PlanError):
        (verify_blocks if last else verify)(broken)


@given(spots(), st.fractions(0, 1), st.booleans())
def test_shifted_boundary(spot: tuple[Plan, int, int], where: Fraction, upper: bool) -> None:
    """Shorter leaves a gap; longer overlaps a neighbour or leaves the buffer."""
    plan, level, index = spot
    step = plan.levels[level][index]
    moved = Range(step.range.lo, where) if upper else Range(where, step.range.hi)
    if moved != step.range:
        with pytest.raises(PlanError):
            verify(planted(plan, level, index, replace(step, range=moved)))


@given(spots())
def test_overlapping_range(spot: tuple[Plan, int, int]) -> None:
    plan, level, index = spot
    step = plan.levels[level][index]
    with pytest.raises(PlanError, match="of this level") as caught:
        verify(planted(plan, level, index, step, replace(step, range=step.range.halves()[0])))
    assert (caught.value.level, caught.value.reduce) == (level, index + 1)
    assert caught.value.interval is not None


def test_the_error_says_where() -> None:
    plan = make(3, (Reduce(WHOLE, (0, 1), 0),), (Reduce(LOW, (0, 2), 0), Reduce(HIGH, (1, 2), 2)))
    with pytest.raises(PlanError) as caught:
        verify(plan)
    assert str(caught.value) == (
        "plan 'hand-made' for 3 ranks, level 1, reduce 1 ([1/2, 1) {1, 2} -> 2), interval [1/2, 1):"
        " rank 1 has given its copy away in an earlier level"
    )
    error = caught.value
    assert (error.level, error.reduce, error.interval) == (1, 1, HIGH)


def test_an_owner_need_not_be_a_holder() -> None:
    plan = make(3, (Reduce(WHOLE, (0, 1), 0),), (Reduce(WHOLE, (0, 2), 1),))
    assert verify(plan) == ((WHOLE, 1),)


def test_but_its_own_contribution_must_not_be_lost() -> None:
    with pytest.raises(PlanError, match="contributions of rank 0 in its copy would be lost"):
        verify(make(3, (Reduce(WHOLE, (1, 2), 0),)))


def test_flexreduce_on_uneven_machines() -> None:
    """Machines D E and F G H, 12 items: the example of the FlexReduce paper."""
    d, e, f, g, h = range(5)

    def reduce(lo: int, hi: int, holders: tuple[int, ...], owner: int) -> Reduce:
        return Reduce(Range(Fraction(lo, 12), Fraction(hi, 12)), holders, owner)

    left = reduce(0, 6, (d, e), d), reduce(6, 12, (d, e), e)
    right = reduce(0, 4, (f, g, h), f), reduce(4, 8, (f, g, h), g), reduce(8, 12, (f, g, h), h)
    across = (
        *(reduce(0, 2, (d, f), f), reduce(2, 4, (d, f), d), reduce(4, 5, (d, g), d), reduce(5, 6, (d, g), g)),
        *(
            reduce(6, 7, (e, g), g),
            reduce(7, 8, (e, g), e),
            reduce(8, 10, (e, h), e),
            reduce(10, 12, (e, h), h),
        ),
    )
    owners = [(int(part.lo * 12), int(part.hi * 12), rank) for part, rank in verify(make(5, left + right, across))]
    assert owners == [(0, 2, f), (2, 5, d), (5, 7, g), (7, 10, e), (10, 12, h)]


def test_giving_away_and_owning_in_one_level() -> None:
    with pytest.raises(PlanError, match="rank 1 is also in reduce 0"):
        verify(make(3, (Reduce(WHOLE, (1, 2), 2), Reduce(LOW, (0, 1), 1))))


def test_receiving_and_giving_away_in_one_level() -> None:
    first = (Reduce(WHOLE, (0, 1), 1),)
    with pytest.raises(PlanError, match="rank 0 is also in reduce 0"):
        verify(make(3, first, (Reduce(WHOLE, (1,), 0), Reduce(WHOLE, (0, 2), 2))))
    assert verify(make(3, first, (Reduce(WHOLE, (1,), 0),), (Reduce(WHOLE, (0, 2), 2),))) == ((WHOLE, 2),)


def test_groups_of_one_level_may_work_on_the_same_range() -> None:
    plan = make(4, (Reduce(WHOLE, (0, 1), 0), Reduce(WHOLE, (2, 3), 3)), (Reduce(WHOLE, (0, 3), 3),))
    assert verify(plan) == ((WHOLE, 3),)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Reduce(Range(Fraction(1, 2), Fraction(1, 2)), (0, 1), 0), "lo < hi"),
        (Reduce(Range(Fraction(0), Fraction(3, 2)), (0, 1), 0), "hi <= 1"),
        (Reduce(Range(Fraction(-1, 2), Fraction(1)), (0, 1), 0), "0 <= lo"),
        (Reduce(WHOLE, (), 0), "it has no holders"),
        (Reduce(WHOLE, (0, 2), 0), "no rank 2"),
        (Reduce(WHOLE, (0, 1), -1), "no rank -1"),
    ],
)
def test_malformed_reduce(step: Reduce, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        verify(make(2, (step,)))
    assert (caught.value.level, caught.value.reduce) == (0, 0)


def test_no_ranks() -> None:
    with pytest.raises(PlanError, match="at least one rank"):
        verify(make(0))


def test_unfinished_reduce_scatter() -> None:
    with pytest.raises(PlanError, match=r"interval \[1/2, 1\): its contributions are still spread over ranks 0, 2"):
        verify(make(3, (Reduce(WHOLE, (0, 1), 0),), (Reduce(LOW, (0, 2), 0),)))


def test_uneven_blocks_are_an_all_reduce_but_no_reduce_scatter() -> None:
    third = Fraction(1, 3)
    plan = make(2, (Reduce(Range(Fraction(0), third), (0, 1), 0), Reduce(Range(third, Fraction(1)), (0, 1), 1)))
    assert len(verify(plan)) == 2
    with pytest.raises(PlanError, match=r"rank 1 ends as the owner, but its block is \[1/2, 1\)"):
        verify_blocks(plan)


def test_all_gather_sends_only_what_has_arrived() -> None:
    plan = binomial(4)
    upside_down = replace(plan, levels=plan.levels[::-1])
    with pytest.raises(PlanError, match="rank 2 sends what it has not received") as caught:
        verify_all_gather(upside_down, ((WHOLE, 0),))
    assert (caught.value.level, caught.value.reduce) == (1, 1)


def test_all_gather_reaches_everybody() -> None:
    with pytest.raises(PlanError, match=r"interval \[0, 1/2\): the all-gather never brings it to ranks 1, 2"):
        verify_all_gather(make(3, (Reduce(HIGH, (0, 1, 2), 0),)), ((WHOLE, 0),))
    verify_all_gather(direct(3), tuple((block(rank, 3), rank) for rank in range(3)))


def test_all_gather_of_one_level_is_parallel() -> None:
    plan = make(3, (Reduce(WHOLE, (0, 1), 0), Reduce(WHOLE, (1, 2), 1)))
    with pytest.raises(PlanError, match="rank 1 sends what it has not received"):
        verify_all_gather(plan, ((WHOLE, 0),))
