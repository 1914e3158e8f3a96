"""All-gather and broadcast along the tree: right for any numbering of ranks, no link crossed more than it must be."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import machines, trees

from paceline.plan.blocks import blocks
from paceline.plan.broadcast_tree import broadcast_tree
from paceline.plan.cost import cost
from paceline.plan.ir import WHOLE, block
from paceline.plan.network import Network
from paceline.plan.relabel import relabel
from paceline.plan.ring import ring, ring_of_blocks
from paceline.plan.verify import verify, verify_blocks
from paceline.topology import Topology


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


@given(trees(), st.integers(0, 63))
def test_broadcast_crosses_each_link_once(topology: Topology, seed: int) -> None:
    root = seed % topology.world
    plan = broadcast_tree(topology, root)
    assert verify(plan) == ((WHOLE, root),)
    network = Network(topology)
    span = {network.name(index): network.span[index] for index in range(len(network.nodes))}
    for link in cost(plan, topology, 1).links:
        if root in span[link.name]:
            assert link.down >= 1
        else:
            assert link.up == 1  # what goes up in a reduction comes down in a broadcast


@pytest.mark.parametrize(("sizes", "steps"), [((2, 3), 1 + 2), ((1, 1, 1, 1), 2), ((4, 4, 4), 2 + 2), ((5,), 3)])
def test_broadcast_steps(sizes: tuple[int, ...], steps: int) -> None:
    assert len(broadcast_tree(machines(sizes, [1.0] * len(sizes)), 0).levels) == steps


def test_a_ring_in_order_is_the_plain_ring() -> None:
    assert ring_of_blocks(range(5)) == ring(5)
    assert verify(ring_of_blocks((2, 0, 1)))[0] == (block(0, 3), 0)
