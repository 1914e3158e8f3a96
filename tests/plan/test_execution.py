"""Plans carried out with NumPy on real numbers: exact on every rank, and never better than the proof says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from trees import trees

from paceline.plan.binomial import binomial
from paceline.plan.direct import direct
from paceline.plan.exchange import exchange
from paceline.plan.flat import flat
from paceline.plan.halving_doubling import halving_doubling
from paceline.plan.ir import Plan, Reduce, block
from paceline.plan.ring import ring
from paceline.plan.verify import PlanError, verify
from paceline.topology import Topology

Buffer = npt.NDArray[np.int64]
Planner = Callable[[int], Plan]

POISON = -(1 << 40)
worlds = st.integers(1, 33)
counts = st.one_of(st.integers(0, 40), st.integers(0, 3000))
seeds = st.integers(0, 2**32 - 1)
all_planners: st.SearchStrategy[Planner] = st.sampled_from([direct, ring, halving_doubling, binomial, flat])
block_planners: st.SearchStrategy[Planner] = st.sampled_from([direct, ring])
tree_planners: st.SearchStrategy[Planner] = st.sampled_from([binomial, flat])


def reduce_scatter(plan: Plan, buffers: list[Buffer], order: random.Random) -> None:
    """The Reduces of a level in any order; copies that were given away are poisoned: nobody may need them."""
    for level in plan.levels:
        for step in order.sample(level, len(level)):
            part = slice(*step.range.elements(buffers[0].size))
            total = np.sum([buffers[holder][part] for holder in step.holders], axis=0, dtype=np.int64)
            for holder in step.holders:
                buffers[holder][part] = POISON
            buffers[step.owner][part] = total


def all_gather(plan: Plan, buffers: list[Buffer], order: random.Random) -> None:
    for level in reversed(plan.levels):
        for step in order.sample(level, len(level)):
            part = slice(*step.range.elements(buffers[0].size))
            for holder in step.holders:
                buffers[holder][part] = buffers[step.owner][part]


def random_buffers(world: int, count: int, seed: int) -> list[Buffer]:
    return list(np.random.default_rng(seed).integers(-1000, 1000, (world, count)))


@given(all_planners, worlds, counts, seeds)
def test_all_reduce(planner: Planner, world: int, count: int, seed: int) -> None:
    plan, order = planner(world), random.Random(seed)
    buffers = random_buffers(world, count, seed)
    expected = np.sum(buffers, axis=0)
    reduce_scatter(plan, buffers, order)
    all_gather(plan, buffers, order)
    assert all(np.array_equal(buffer, expected) for buffer in buffers)


@given(trees(most=24), counts, seeds)
def test_all_reduce_whose_last_level_is_in_one_shot(topology: Topology, count: int, seed: int) -> None:
    plan, order = exchange(topology), random.Random(seed)
    verify(plan)
    owned = replace(plan, levels=plan.levels[:-1])
    buffers = random_buffers(topology.world, count, seed)
    expected = np.sum(buffers, axis=0)
    reduce_scatter(owned, buffers, order)
    for step in plan.levels[-1] if plan.levels else ():
        total = np.sum([buffers[holder] for holder in step.holders], axis=0, dtype=np.int64)
        for holder in step.holders:
            buffers[holder][:] = total
    all_gather(owned, buffers, order)
    assert all(np.array_equal(buffer, expected) for buffer in buffers)


@given(block_planners, worlds, st.integers(0, 50), seeds)
def test_reduce_scatter(planner: Planner, world: int, count: int, seed: int) -> None:
    buffers = random_buffers(world, world * count, seed)
    expected = np.sum(buffers, axis=0)
    reduce_scatter(planner(world), buffers, random.Random(seed))
    for rank, buffer in enumerate(buffers):
        mine = slice(rank * count, (rank + 1) * count)
        assert np.array_equal(buffer[mine], expected[mine])


@given(block_planners, worlds, st.integers(0, 50), seeds)
def test_all_gather(planner: Planner, world: int, count: int, seed: int) -> None:
    expected = random_buffers(1, world * count, seed)[0]
    buffers = [np.full(world * count, POISON) for _ in range(world)]
    for rank, buffer in enumerate(buffers):
        mine = slice(rank * count, (rank + 1) * count)
        buffer[mine] = expected[mine]
    all_gather(planner(world), buffers, random.Random(seed))
    assert all(np.array_equal(buffer, expected) for buffer in buffers)


@given(tree_planners, worlds, counts, seeds)
def test_broadcast_from_any_root(planner: Planner, world: int, count: int, seed: int) -> None:
    """Another root than 0 takes rank 0's part by counting ranks from the root on."""
    root = seed % world
    expected = random_buffers(1, count, seed)[0]
    buffers = [expected.copy() if rank == root else np.full(count, POISON) for rank in range(world)]
    from_root = [buffers[(root + rank) % world] for rank in range(world)]
    all_gather(planner(world), from_root, random.Random(seed))
    assert all(np.array_equal(buffer, expected) for buffer in buffers)


@given(all_planners, st.integers(2, 6), seeds, st.data())
def test_what_the_proof_accepts_works(planner: Planner, world: int, seed: int, data: st.DataObject) -> None:
    """One Reduce becomes an arbitrary one: either the proof rejects it, or the sums are right."""
    plan, order = planner(world), random.Random(seed)
    ranks = st.integers(0, world - 1)
    at = data.draw(st.integers(0, len(plan.levels) - 1))
    level = list(plan.levels[at])
    level[data.draw(st.integers(0, len(level) - 1))] = Reduce(
        data.draw(st.sampled_from([step.range for step in level] + [block(0, 2)])),
        tuple(data.draw(st.lists(ranks, min_size=1, max_size=world))),
        data.draw(ranks),
    )
    changed = replace(plan, levels=(*plan.levels[:at], tuple(level), *plan.levels[at + 1 :]))
    try:
        verify(changed)
        proven = True
    except PlanError:
        proven = False
    buffers = random_buffers(world, 60, seed)
    expected = np.sum(buffers, axis=0)
    reduce_scatter(changed, buffers, order)
    all_gather(changed, buffers, order)
    right = all(np.array_equal(buffer, expected) for buffer in buffers)
    assert right or not proven


@given(st.integers(0, 10**13), st.integers(1, 64))
def test_ranges_that_meet_in_the_plan_meet_in_every_buffer(count: int, parts: int) -> None:
    ends = [block(index, parts).elements(count) for index in range(parts)]
    assert (ends[0][0], ends[-1][1]) == (0, count)
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    assert all(abs((hi - lo) * parts - count) < parts for lo, hi in ends)
