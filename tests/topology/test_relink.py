"""A known network after a measurement: what was found holds, and what does not contradict it stays."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_topologies import links, topologies
from small_cluster import RACK

from paceline.topology import Link, Node, Topology, parse
from paceline.topology.discover import Placement, RankFacts, by_machine, place
from paceline.topology.measured import Load
from paceline.topology.relink import relink

LOCAL = Link(1e10, 1e10)
SLOW = Link(1e6, 2e6, 1e-5)
FAST = Link(1e8, 1e8)
EAST = frozenset({"alpha", "beta"})
WEST = frozenset({"gamma", "delta"})
FLAT = """
children:
  - {machine: alpha, ranks: 1, uplink: 800 Mbit/s}
  - {machine: beta, ranks: 2, uplink: 800 Mbit/s}
  - {machine: gamma, ranks: 1, uplink: 800 Mbit/s}
  - {machine: delta, ranks: 1, uplink: 800 Mbit/s}
"""
RACKS = """
children:
  - switch: east
    uplink: 400 Mbit/s
    children:
      - {machine: alpha, ranks: 1, uplink: 800 Mbit/s}
      - {machine: beta, ranks: 2, uplink: 800 Mbit/s}
  - {machine: gamma, ranks: 1, uplink: 800 Mbit/s}
  - {machine: delta, ranks: 1, uplink: 800 Mbit/s}
"""


def in_order(topology: Topology) -> Placement:
    return Placement(topology, tuple(range(topology.world)))


def facts_of(known: Placement) -> list[RankFacts]:
    """What the ranks of this network say of themselves."""
    names = dict[int, str]()
    for node, places in known.topology.machines():
        names |= {known.ranks[place]: node.name for place in places}
    return [RankFacts(names[rank], names[rank]) for rank in range(known.topology.world)]


def measured(known: Placement, uplinks: list[Link], switches: list[tuple[frozenset[str], Link]]) -> Placement:
    """The network with these links, of machines in the order of their first ranks."""
    facts = facts_of(known)
    order = [facts[ranks[0]].host for ranks in by_machine(facts)]
    below = [(frozenset(map(order.index, names)), link) for names, link in switches]
    return place(facts, uplinks, [LOCAL] * len(order), below)


def machines(placement: Placement) -> dict[str, tuple[Link | None, set[int], tuple[Node, ...]]]:
    """By name: its link, its ranks, and the links inside."""
    return {
        node.name: (node.uplink, {placement.ranks[place] for place in places}, node.children)
        for node, places in placement.topology.machines()
    }


def switches(topology: Topology) -> dict[frozenset[str], Link | None]:
    """Of those that join two machines at least to others: the links, by the machines below."""
    found = {}
    for node in reversed(list(topology.root.walk())):
        names = frozenset(below.name for below in node.walk() if below.kind == "machine")
        if node.kind == "switch" and 2 <= len(names) < sum(1 for _ in topology.machines()):
            found.setdefault(names, node.uplink)
    return found


@pytest.mark.verify
@settings(max_examples=40)
@given(topologies(), st.randoms(use_true_random=False), st.lists(links, min_size=40, max_size=40))
def test_what_was_found_holds_and_what_was_known_inside_machines_stays(
    topology: Topology, chance: Random, drawn: list[Link]
) -> None:
    ranks = list(range(topology.world))
    chance.shuffle(ranks)
    known = Placement(topology, tuple(ranks))
    order = [facts[0] for facts in by_machine_names(known)]
    assume(2 <= len(order) <= len(drawn))
    cuts = [0, *sorted(chance.sample(range(1, len(order)), chance.randint(0, len(order) - 1))), len(order)]
    runs = [frozenset(order[start:end]) for start, end in pairwise(cuts) if 2 <= end - start < len(order)]
    found = measured(known, drawn[: len(order)], [(names, SLOW) for names in runs])
    result = relink(known, found, [])
    assert sorted(result.ranks) == list(range(topology.world))
    before, after = machines(known), machines(result)
    assert {name: link for name, (link, _, _) in after.items()} == dict(zip(order, drawn, strict=False))
    for name, (_, held, inside) in before.items():
        assert after[name][1] == held
        assert [node.uplink for node in after[name][2]] == [node.uplink for node in inside]
    shown, stays = switches(result.topology), switches(topology)
    assert set(shown) == set(runs) | {
        names for names in stays if all(names <= run or run <= names or not names & run for run in runs)
    }
    assert all(shown[names] == SLOW for names in runs if names not in stays)
    assert all(shown[names] == stays[names] for names in set(shown) - set(runs))
    names = [node.name for node in result.topology.root.walk() if node.kind in ("machine", "switch")]
    assert len(set(names)) == len(names)
    assert relink(result, found, []) == result


def by_machine_names(known: Placement) -> list[list[str]]:
    facts = facts_of(known)
    return [[facts[rank].host for rank in ranks] for ranks in by_machine(facts)]


def test_nothing_new_changes_nothing() -> None:
    known = in_order(RACK)
    uplinks = [node.uplink for node, _ in RACK.machines() if node.uplink is not None]
    assert relink(known, measured(known, uplinks, []), []) == known


def test_a_switch_that_nobody_knew_of_is_put_in_with_its_link() -> None:
    known = in_order(parse(FLAT))
    found = relink(known, measured(known, [FAST] * 4, [(WEST, SLOW)]), [])
    assert switches(found.topology) == {WEST: SLOW}
    assert [node.name for node in found.topology.root.walk() if node.kind == "switch"][1:] == ["switch-1"]


def test_a_known_switch_gets_the_speed_that_was_found_and_goes_where_one_crosses_it() -> None:
    known = in_order(parse(RACKS))
    found = relink(known, measured(known, [FAST] * 4, [(EAST, SLOW)]), [])
    assert switches(found.topology) == {EAST: SLOW}
    assert found.topology.root.children[0].name == "east"
    crossing = frozenset({"beta", "gamma"})
    found = relink(known, measured(known, [FAST] * 4, [(crossing, SLOW)]), [])
    assert switches(found.topology) == {crossing: SLOW}
    assert found.ranks == (0, 1, 2, 3, 4)
    assert [node.name for node, _ in found.topology.machines()] == ["alpha", "beta", "gamma", "delta"]


@pytest.mark.parametrize("shown", [False, True])
def test_a_known_link_that_hindered_nobody_is_as_fast_as_what_passed_it(shown: bool) -> None:
    """400 Mbit/s by the file: 120 MB/s went up and 90 MB/s down. If latencies showed the switch, its link was taken to
    be as fast as all below; that is no measurement."""
    known = in_order(parse(RACKS))
    below = [(EAST, Link(2e8, 2e8))] if shown else []
    load = Load((0, 1, 2, 3), np.array([[2, 3, 0, 1], [1, 2, 3, 0]]), np.array([[7e7, 5e7, 1e7, 1e7], [9e7] * 4]))
    found = relink(known, measured(known, [FAST] * 4, below), [load])
    link = switches(found.topology)[EAST]
    assert link is not None
    assert (link.up, link.down) == (1.2e8, 9e7)
