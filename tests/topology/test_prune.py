"""The part of a topology that some ranks sit in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_cluster import RACK

from paceline.topology import Topology
from paceline.topology.prune import prune


def machines(topology: Topology) -> dict[str, int]:
    return {node.name: len(ranks) for node, ranks in topology.machines()}


@given(st.sets(st.integers(0, 5), min_size=1))
def test_every_machine_keeps_its_ranks_and_its_links(ranks: set[int]) -> None:
    left = prune(RACK, ranks)
    assert left.world == len(ranks)
    names = ["alpha", "alpha", "beta", "beta", "beta", "gamma"]
    assert machines(left) == {
        name: sum(names[rank] == name for rank in ranks) for name in names if name in {names[rank] for rank in ranks}
    }
    whole = {node.name: node.uplink for node in RACK.root.walk() if node.kind != "rank"}
    assert all(node.uplink == whole[node.name] for node in left.root.walk() if node.kind != "rank")


def test_all_ranks_are_the_same_topology() -> None:
    assert prune(RACK, range(6)) == RACK


def test_nobody_is_no_topology() -> None:
    with pytest.raises(ValueError, match="none of the ranks"):
        prune(RACK, {6})
