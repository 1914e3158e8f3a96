"""The topology that ranks find themselves in from what each says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.topology import Link, dump, parse
from paceline.topology.discover import RankFacts, discover

places = st.lists(st.integers(0, 6), min_size=1, max_size=24)


def test_ranks_that_share_a_machine_need_not_be_numbered_in_a_row() -> None:
    facts = [RankFacts("A", "a", 1e9), RankFacts("B", "b", 2e9), RankFacts("A", "a", 1e9), RankFacts("C", "c")]
    found = discover(facts)
    assert found.ranks == (0, 2, 1, 3)
    assert [(node.name, list(ranks)) for node, ranks in found.topology.machines()] == [
        ("a", [0, 1]),
        ("b", [2]),
        ("c", [3]),
    ]
    uplinks = [node.uplink for node, _ in found.topology.machines()]
    assert uplinks[:2] == [Link(1e9, 1e9, 50e-6), Link(2e9, 2e9, 50e-6)]
    assert uplinks[2] == Link(1e9, 1e9, 50e-6)  # nobody knows it: as the others


def test_one_machine_is_a_topology_without_a_switch() -> None:
    found = discover([RankFacts("A", "a")] * 3)
    assert found.topology.root.kind == "machine" and found.topology.root.uplink is None
    assert found.topology.world == 3


def test_no_speed_is_known() -> None:
    found = discover([RankFacts("A", "a"), RankFacts("B", "b")])
    assert {node.uplink for node, _ in found.topology.machines()} == {Link(1.25e9, 1.25e9, 50e-6)}


def test_machines_of_the_same_name_stay_apart() -> None:
    found = discover([RankFacts("A", "node"), RankFacts("B", "node"), RankFacts("C", "network")])
    assert [node.name for node, _ in found.topology.machines()] == ["node", "node (2)", "network"]
    assert found.topology.root.name == "network (2)"
    assert parse(dump(found.topology)) == found.topology


@given(places)
def test_every_rank_has_its_place(places: list[int]) -> None:
    found = discover([RankFacts(f"id {place}", f"host-{place}") for place in places])
    assert sorted(found.ranks) == list(range(len(places)))
    for machine, ranks in found.topology.machines():
        assert {f"host-{places[found.ranks[rank]]}" for rank in ranks} == {machine.name}
    assert parse(dump(found.topology)) == found.topology
