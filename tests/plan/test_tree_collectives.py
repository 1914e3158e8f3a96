"""All-gather and broadcast along the tree: right for any numbering of ranks, no link crossed more than it must be."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import machines, trees

from paceline.plan.blocks import blocks
from paceline.plan.broadcast_chain import broadcast_chain
from paceline.plan.broadcast_tree import broadcast_tree
from paceline.plan.cost import cost
from paceline.plan.ir import WHOLE, Plan, block
from paceline.plan.network import Network
from paceline.plan.relabel import relabel
from paceline.plan.ring import ring, ring_of_blocks
from paceline.plan.turned import turned
from paceline.plan.verify import verify, verify_blocks
from paceline.topology import Topology

Planner = Callable[[Topology, int], Plan]
planners = st.sampled_from([broadcast_tree, broadcast_chain])


@pytest.mark.verify
@given(trees(), st.randoms())
def test_every_rank_ends_with_its_block(topology: Topology, order: Random) -> None:
    ranks = list(range(topology.world))
    order.shuffle(ranks)
    plan = relabel(blocks(topology, ranks), ranks)
    verify_blocks(plan)
    verify_blocks(ring_of_blocks(ranks))
    assert all(step.owner in step.holders for level in plan.levels for step in level)


@given(st.lists(st.integers(1, 6), min_size=2, max_size=6))
def test_every_block_enters_every_machine_once(sizes: list[int]) -> None:
    topology = machines(sizes, [1.0] * len(sizes))
    world = sum(sizes)
    # The all-gather sends down what the reduce-scatter sends up.
    found = {link.name: (link.up, link.down) for link in cost(blocks(topology, range(world)), topology, 1).links}
    for number, size in enumerate(sizes):
        entering, leaving = found[f"machine {number}"]
        assert entering == pytest.approx((world - size) / world)
        assert leaving == pytest.approx((len(sizes) - 1) * size / world)


@settings(max_examples=40)
@given(planners, trees(), st.integers(0, 63), st.data())
def test_broadcast_enters_every_machine_and_switch_once_from_any_root(
    planner: Planner, topology: Topology, first: int, data: st.DataObject
) -> None:
    """From other roots than its own the engine goes along the same edges, turned."""
    own = first % topology.world
    plan = planner(topology, own)
    assert verify(plan) == ((WHOLE, own),)
    network = Network(topology)
    inner = {network.name(index): network.span[index] for index, node in enumerate(network.nodes) if node.children}
    root = data.draw(st.integers(0, topology.world - 1))
    ways = edges(turned(plan, root))
    assert sorted(to for _, to in ways) == sorted(set(range(topology.world)) - {root})
    for name, span in inner.items():
        entered = sum(sender not in span and to in span for sender, to in ways)
        assert entered == (root not in span), name


@settings(max_examples=40)
@given(planners, trees(), st.integers(0, 63), st.integers(0, 63))
def test_a_turned_broadcast_has_the_same_edges_and_is_one_from_its_root(
    planner: Planner, topology: Topology, first: int, second: int
) -> None:
    own, root = first % topology.world, second % topology.world
    plan = planner(topology, own)
    other = turned(plan, root)
    assert verify(other) == ((WHOLE, root),)
    assert sorted(map(sorted, edges(plan))) == sorted(map(sorted, edges(other)))
    assert edges(turned(plan, own)) == edges(plan)


@settings(max_examples=40)
@given(planners, trees(), st.integers(0, 63))
def test_broadcast_loads_links_as_the_model_says(planner: Planner, topology: Topology, seed: int) -> None:
    root = seed % topology.world
    plan = planner(topology, root)
    network = Network(topology)
    span = {network.name(index): network.span[index] for index in range(len(network.nodes))}
    ways = edges(plan)
    for link in cost(plan, topology, 1).links:
        # What goes up in a reduction comes down in a broadcast.
        assert link.up == sum(sender not in span[link.name] and to in span[link.name] for sender, to in ways)
        assert link.down == sum(sender in span[link.name] and to not in span[link.name] for sender, to in ways)


@settings(max_examples=40)
@given(trees(), st.integers(0, 63))
def test_a_chain_leaves_every_machine_and_switch_once(topology: Topology, seed: int) -> None:
    network = Network(topology)
    ways = edges(broadcast_chain(topology, seed % topology.world))
    for index, node in enumerate(network.nodes):
        if node.kind in ("machine", "switch"):
            span = network.span[index]
            assert sum(sender in span and to not in span for sender, to in ways) <= 1


def edges(plan: Plan) -> list[tuple[int, int]]:
    """Who sends to whom in a broadcast, in that order."""
    return [
        (step.owner, holder)
        for level in reversed(plan.levels)
        for step in level
        for holder in step.holders
        if holder != step.owner
    ]


@pytest.mark.parametrize(("sizes", "steps"), [((2, 3), 1 + 2), ((1, 1, 1, 1), 2), ((4, 4, 4), 2 + 2), ((5,), 3)])
def test_broadcast_steps(sizes: tuple[int, ...], steps: int) -> None:
    assert len(broadcast_tree(machines(sizes, [1.0] * len(sizes)), 0).levels) == steps


def test_a_ring_in_order_is_the_plain_ring() -> None:
    assert ring_of_blocks(range(5)) == ring(5)
    assert verify(ring_of_blocks((2, 0, 1)))[0] == (block(0, 3), 0)
