"""Every planner, for 1 to 33 ranks: proven right, with the steps and bytes that its docstring claims."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from paceline.plan.binomial import binomial
from paceline.plan.direct import direct
from paceline.plan.flat import flat
from paceline.plan.halving_doubling import halving_doubling
from paceline.plan.ir import WHOLE, Plan, Reduce, block
from paceline.plan.ring import ring
from paceline.plan.verify import verify, verify_blocks

Planner = Callable[[int], Plan]
PLANNERS: list[Planner] = [direct, ring, halving_doubling, binomial, flat]
WORLDS = range(1, 34)


def sent(plan: Plan) -> list[Fraction]:
    """The share of the buffer that each rank sends in the reduce-scatter."""
    share = [Fraction(0)] * plan.world
    for level in plan.levels:
        for step in level:
            for holder in step.holders:
                if holder != step.owner:
                    share[holder] += step.range.hi - step.range.lo
    return share


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("planner", PLANNERS)
def test_plan_is_proven(planner: Planner, world: int) -> None:
    plan = planner(world)
    assert (plan.world, plan.name) == (world, planner.__name__)
    assert verify(plan)[0][0].lo == 0
    assert world > 1 or plan.levels == ()


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("planner", [direct, ring])
def test_blocks_end_with_their_rank(planner: Planner, world: int) -> None:
    plan = planner(world)
    verify_blocks(plan)
    assert verify(plan) == tuple((block(rank, world), rank) for rank in range(world))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("planner", [binomial, flat])
def test_trees_end_at_rank_0(planner: Planner, world: int) -> None:
    assert verify(planner(world)) == ((WHOLE, 0),)


@pytest.mark.parametrize("world", WORLDS)
def test_steps_and_bytes(world: int) -> None:
    log = (world - 1).bit_length()
    power = 1 << (world.bit_length() - 1)
    extra = world - power
    assert len(direct(world).levels) == min(1, world - 1)
    assert len(ring(world).levels) == world - 1
    assert len(binomial(world).levels) == log
    assert len(halving_doubling(world).levels) == power.bit_length() - 1 + (extra > 0)
    assert sent(direct(world)) == sent(ring(world)) == [Fraction(world - 1, world)] * world
    assert sent(binomial(world)) == sent(flat(world)) == [Fraction(0)] + [Fraction(1)] * (world - 1)
    halving = sent(halving_doubling(world))
    assert halving.count(Fraction(power - 1, power)) == power
    assert sum(halving) == power - 1 + extra


@pytest.mark.parametrize("world", range(2, 34))
def test_ring_sends_to_the_right_neighbour_only(world: int) -> None:
    for level in ring(world).levels:
        assert {step.owner for step in level} == set(range(world))
        for step in level:
            assert set(step.holders) == {(step.owner - 1) % world, step.owner}


def test_halving_doubling_moves_most_between_neighbours() -> None:
    first, second = halving_doubling(4).levels
    half = WHOLE.halves()
    assert first == (
        Reduce(half[0], (0, 1), 0),
        Reduce(half[1], (0, 1), 1),
        Reduce(half[0], (2, 3), 2),
        Reduce(half[1], (2, 3), 3),
    )
    assert [step.holders for step in second] == [(0, 2), (0, 2), (1, 3), (1, 3)]


def test_copies_are_combined_in_the_order_of_ranks() -> None:
    for planner in PLANNERS:
        for level in planner(12).levels:
            assert all(list(step.holders) == sorted(step.holders) for step in level)
