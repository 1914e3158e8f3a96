"""What each stream between machines may bring: links, shared by those who send over them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import trees

from paceline.calibration.plan import STREAMS_OF_LINK
from paceline.lab.lab import switched
from paceline.plan.algorithms import ALGORITHMS
from paceline.plan.streams import stream_rates
from paceline.plan.wire import PlanEntry
from paceline.runtime.plans import plans
from paceline.topology import Link, Node, Topology, read
from paceline.topology.discover import Placement

FILES = Path(__file__).parents[2] / "docs" / "topologies"
MBIT = 1e6 / 8

Plans = Mapping[str, Sequence[PlanEntry]]
Pair = tuple[int, int]


def placed(topology: Topology) -> Placement:
    return Placement(topology, tuple(range(topology.world)))


def inbound(topology: Topology, algorithm: str) -> list[float]:
    made = plans(topology, range(topology.world), algorithm)
    return [stream_rates(placed(topology), made, rank).inbound for rank in range(topology.world)]


def outbound(placement: Placement, made: Plans) -> dict[Pair, float]:
    """The rates that are limited, by sender and receiver."""
    ranks = range(placement.topology.world)
    rates = {rank: stream_rates(placement, made, rank).outbound for rank in ranks}
    return {(a, b): rates[a][b] for a in ranks for b in ranks if 0 < rates[a][b] < math.inf}


def sent(made: Plans) -> dict[Pair, Fraction]:
    """The part of the buffer that each rank sends to another in both halves together."""
    found: dict[Pair, Fraction] = {}
    for level in made["all_reduce"][-1][-1]:
        for lo, lo_den, hi, hi_den, holders, owner in level:
            for holder in holders:
                for pair in ((holder, owner), (owner, holder)):
                    found[pair] = found.get(pair, Fraction(0)) + Fraction(hi, hi_den) - Fraction(lo, lo_den)
    return found


def ways(placement: Placement) -> list[tuple[float, set[Pair]]]:
    """Every link between machines in either direction: its speed, and the streams that would cross it."""
    places, everyone = iter(placement.ranks), set(placement.ranks)
    found: list[tuple[float, set[Pair]]] = []

    def below(node: Node) -> set[int]:
        here = {next(places)} if node.kind == "rank" else set[int]().union(*map(below, node.children))
        if node.kind in ("switch", "machine") and node.uplink is not None:
            rest = everyone - here
            found.append((node.uplink.up, {(a, b) for a in here for b in rest}))
            found.append((node.uplink.down, {(b, a) for a in here for b in rest}))
        return here

    below(placement.topology.root)
    return found


@pytest.mark.parametrize("machines", [2, 3, 8])
def test_single_ranks_all_send_to_each(machines: int) -> None:
    link = Link(30e6, 21e6)
    assert inbound(switched([1] * machines, link), "flexreduce") == [21e6 / (machines - 1)] * machines


def test_a_ring_has_one_stream_into_each_machine() -> None:
    assert inbound(switched([2, 3, 1], Link(5e6, 7e6)), "ring") == [7e6] * 6


def test_what_nothing_holds_is_not_shared() -> None:
    topology = switched([2, 2])
    assert inbound(topology, "flexreduce") == [math.inf] * 4
    assert outbound(placed(topology), plans(topology)) == {}


def test_ranks_may_sit_anywhere() -> None:
    topology = switched([3, 1], Link(8e6, 8e6))
    placement = Placement(topology, (1, 2, 3, 0))  # rank 0 is alone
    made = plans(topology, placement.ranks, "flexreduce")
    alone, *others = (stream_rates(placement, made, rank) for rank in range(4))
    assert alone.inbound == 8e6 / 3
    assert {one.inbound for one in others} == {8e6 / 3}
    assert alone.outbound[0] == 0
    assert sum(alone.outbound[1:]) == pytest.approx(STREAMS_OF_LINK * 8e6)
    for one in others:
        assert 0 < one.outbound[0] < math.inf
        assert set(one.outbound[1:]) <= {0, math.inf}


@settings(max_examples=40)
@given(trees(most=12), st.sampled_from([None, *ALGORITHMS]), st.data())
def test_streams_fill_no_link_and_keep_up_with_the_busiest(
    topology: Topology, algorithm: str | None, data: st.DataObject
) -> None:
    placement = Placement(topology, tuple(data.draw(st.permutations(range(topology.world)))))
    made = plans(topology, placement.ranks, algorithm)
    rates, parts = outbound(placement, made), sent(made)
    seconds = 0.0
    for speed, streams in ways(placement):
        assert sum(rates.get(pair, 0.0) for pair in streams) <= STREAMS_OF_LINK * speed * (1 + 1e-9)
        seconds = max(seconds, sum(float(parts.get(pair, 0)) for pair in streams) / speed)
    for pair, rate in rates.items():
        assert rate * seconds >= STREAMS_OF_LINK * float(parts[pair]) * (1 - 1e-9)


def test_the_slowest_link_is_full_and_the_others_as_far_as_it_allows() -> None:
    topology = read(FILES / "1+1+1-one-slow.yaml")
    fast, slow = STREAMS_OF_LINK * 500 * MBIT, STREAMS_OF_LINK * 200 * MBIT
    # Rank 0 owns two thirds, rank 1 the rest: they exchange the whole buffer, and so do they with rank 2.
    expected = {(0, 1): fast * 3 / 5, (0, 2): slow * 2 / 3, (1, 2): slow / 3}
    both = expected | {(b, a): rate for (a, b), rate in expected.items()}
    assert outbound(placed(topology), plans(topology, algorithm="paceline")) == pytest.approx(both)


@pytest.mark.parametrize("name", ["2+3", "2+2+3", "3+3+4-one-slow"])
def test_some_link_is_full(name: str) -> None:
    topology = read(FILES / f"{name}.yaml")
    placement = placed(topology)
    rates = outbound(placement, plans(topology, algorithm="paceline"))
    full = [sum(rates.get(pair, 0.0) for pair in streams) / speed for speed, streams in ways(placement)]
    assert max(full) == pytest.approx(STREAMS_OF_LINK)
