"""Links from measurements: what was measured on a known network gives that network back, and what is slow is named."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.adapt.measure.schedule import rounds
from paceline.topology import Link, Topology
from paceline.topology.discover import RankFacts, place
from paceline.topology.infer import infer
from paceline.topology.judge import findings
from paceline.topology.measured import Measured

MBIT = 125e3
FASTEST = 1000 * MBIT


def facts_of(ranks: list[int]) -> list[RankFacts]:
    """Machines m0, m1, … of so many ranks."""
    return [RankFacts(f"id {machine}", f"m{machine}") for machine, count in enumerate(ranks) for _ in range(count)]


def measured(uplinks: list[Link], locals: list[Link], ranks: list[int], noise: float = 0.0) -> Measured:
    """What would be measured between machines with these links; a rate and its noise is up to `noise` off."""
    count = len(uplinks)
    chance = random.Random(1)
    rate, latency = np.full((2, count, count), np.nan)
    for pairs in rounds(count, 63):
        for i, j in [*pairs, *((j, i) for i, j in pairs)]:
            rate[i, j] = min(uplinks[i].up, uplinks[j].down) * (1 + chance.uniform(-noise, noise))
            latency[i, j] = sum(link.latency for link in (locals[i], uplinks[i], uplinks[j], locals[j]))
    several = np.array(ranks) > 1
    return Measured(
        rate,
        latency,
        np.where(several, [link.up for link in locals], np.nan),
        np.where(several, [2 * link.latency for link in locals], np.nan),
    )


@st.composite
def networks(draw: st.DrawFn, speed: st.SearchStrategy[float]) -> tuple[list[Link], list[Link], list[int]]:
    """Three machines or more, of which two have the fastest links: without two, nothing could show how fast one is."""
    count = draw(st.integers(3, 12))
    latency = st.integers(1, 300).map(lambda us: us / 1e6)
    links = [Link(FASTEST, FASTEST, draw(latency)) for _ in range(2)]
    links += [Link(draw(speed), draw(speed), draw(latency)) for _ in range(count - 2)]
    ranks = draw(st.lists(st.integers(2, 4), min_size=count, max_size=count))
    locals = [
        Link(local, local, draw(latency))
        for local in draw(st.lists(st.sampled_from([4e9, 8e9]), min_size=count, max_size=count))
    ]
    return draw(st.permutations(links)), locals, ranks


def links_of(topology: Topology) -> list[Link]:
    return [machine.uplink for machine, _ in topology.machines()]


@given(networks(st.integers(1, 999).map(lambda mbit: mbit * MBIT)))
def test_a_known_network_is_found_again(network: tuple[list[Link], list[Link], list[int]]) -> None:
    links, locals, ranks = network
    facts = facts_of(ranks)
    known, found = place(facts, links, locals), infer(facts, measured(links, locals, ranks))
    for expected, node in zip(known.topology.root.walk(), found.topology.root.walk(), strict=True):
        assert (node.kind, node.name) == (expected.kind, expected.name)
        if expected.uplink is not None:
            assert (node.uplink.up, node.uplink.down) == (expected.uplink.up, expected.uplink.down)
            if node.kind == "rank" or max(link.latency for link in locals) < min(link.latency for link in links):
                assert node.uplink.latency == pytest.approx(expected.uplink.latency, rel=0.01, abs=1e-8)


@given(networks(st.floats(10 * MBIT, FASTEST)))
def test_noise_does_little(network: tuple[list[Link], list[Link], list[int]]) -> None:
    links, locals, ranks = network
    found = infer(facts_of(ranks), measured(links, locals, ranks, noise=0.02))
    for link, known in zip(links_of(found.topology), links, strict=True):
        assert link.up == pytest.approx(known.up, rel=0.03)
        assert link.down == pytest.approx(known.down, rel=0.03)


def test_of_two_machines_only_the_slower_link_shows() -> None:
    links = [Link(500 * MBIT, 500 * MBIT, 40e-6), Link(200 * MBIT, 100 * MBIT, 40e-6)]
    locals = [Link(8e9, 8e9, 1e-6)] * 2
    found = infer(facts_of([2, 1]), measured(links, locals, [2, 1]))
    assert [(link.up, link.down) for link in links_of(found.topology)] == [
        (100 * MBIT, 200 * MBIT),
        (200 * MBIT, 100 * MBIT),
    ]
    assert [link.latency for link in links_of(found.topology)] == pytest.approx([40e-6] * 2)
    assert {node.uplink for node in found.topology.root.walk() if node.kind == "rank"} == set(locals)


def test_no_link_is_found_without_latency_where_messages_vary() -> None:
    """The messages of m0 and m1 with each other took longer than both took with m2 together."""
    links, locals = [Link(FASTEST, FASTEST, 0.0)] * 3, [Link(8e9, 8e9, 1e-6)] * 3
    result = measured(links, locals, [2] * 3)
    for (i, j), took in {(0, 1): 840e-6, (0, 2): 420e-6, (1, 2): 400e-6}.items():
        result.latency[i, j] = result.latency[j, i] = took + 2e-6
    first, second, third = (link.latency for link in links_of(infer(facts_of([2] * 3), result).topology))
    assert third == pytest.approx(1e-6)  # as inside the machine
    assert first + second == pytest.approx(833e-6, abs=3e-6)
    assert first - second == pytest.approx(20e-6, abs=1e-6)


def test_more_machines_than_all_can_meet() -> None:
    links = [Link(speed, speed, 50e-6) for speed in [FASTEST] * 99 + [100 * MBIT]]
    ranks = [1] * 100
    result = measured(links, [Link(8e9, 8e9, 1e-6)] * 100, ranks)
    assert np.isnan(result.rate).any(axis=1).all()
    assert [(link.up, link.down) for link in links_of(infer(facts_of(ranks), result).topology)] == [
        (link.up, link.down) for link in links
    ]


def test_one_machine() -> None:
    alone = Measured(np.full((1, 1), np.nan), np.full((1, 1), np.nan), np.array([5e9]), np.array([6e-6]))
    found = infer(facts_of([3]), alone)
    assert found.topology.root.kind == "machine"
    assert found.topology.root.children[0].uplink == Link(5e9, 5e9, 3e-6)
    assert findings(found, alone) == []


def judged(
    links: list[Link],
    locals: list[Link] | None = None,
    slow: tuple[int, int] | None = None,
    waited: list[float] | None = None,
) -> list[str]:
    ranks = [2] * len(links)
    result = measured(links, locals or [Link(8e9, 8e9, 1e-6)] * len(links), ranks)
    result = dataclasses.replace(result, waited=np.array(waited or []))
    if slow is not None:
        result.rate[slow] /= 4
    return findings(infer(facts_of(ranks), result), result)


def even(count: int) -> list[Link]:
    return [Link(200 * MBIT, 200 * MBIT, 50e-6)] * count


def test_nothing_is_slow_where_all_are_alike() -> None:
    for count in (2, 3, 7):
        assert judged(even(count)) == []


def test_who_waited_for_a_core_is_named_first() -> None:
    assert judged(even(3), waited=[0.1, 0.2, 0.2]) == []
    busy, slow = judged([*even(3), Link(50 * MBIT, 200 * MBIT, 50e-6)], waited=[0, 0.5, 0.1, 0.7])
    assert busy == (
        "busy machines: on m1, m3 the rank that measured waited for a core, up to 70 % of the time; "
        "what follows may be slow for that alone, or look faster than it is"
    )
    assert slow.startswith("slow link: m3")


def test_a_slow_link_is_named() -> None:
    assert judged([*even(4), Link(50 * MBIT, 200 * MBIT, 50e-6)]) == [
        "slow link: m4 sends at 50 Mbit/s, 25 % of the others' median of 200 Mbit/s"
    ]
    assert judged([*even(2), Link(50 * MBIT, 100 * MBIT, 50e-6), *even(3)]) == [
        "slow link: m2 sends at 50 Mbit/s, 25 % of the others' median of 200 Mbit/s, "
        "and receives at 100 Mbit/s, 50 % of the others' median of 200 Mbit/s"
    ]


def test_a_late_link_is_named() -> None:
    assert judged([*even(3), Link(200 * MBIT, 200 * MBIT, 2e-3)]) == [
        "slow link: a message takes 2 ms on the link of m3; the others' median is 50 us"
    ]


def test_a_slow_machine_is_named() -> None:
    locals = [Link(8e9, 8e9, 1e-6), Link(2e9, 2e9, 1e-6), Link(8e9, 8e9, 1e-6)]
    assert judged(even(3), locals) == [
        "slow machine: ranks of m1 exchange 16 Gbit/s with each other, 25 % of the others' median of 64 Gbit/s"
    ]


def test_a_slow_path_is_named() -> None:
    assert judged(even(4), slow=(1, 3)) == [
        "slow path: m1 to m3 carries 50 Mbit/s, though m1 sends at 200 Mbit/s and m3 receives at 200 Mbit/s; "
        "a switch between them is slow or was busy"
    ]


def test_of_many_slow_paths_the_slowest_are_named() -> None:
    ranks, links = [2] * 20, even(20)
    result = measured(links, [Link(8e9, 8e9, 1e-6)] * 20, ranks)
    for machine in range(12):
        result.rate[machine, machine + 1] = (30 + machine) * MBIT
    sentences = findings(infer(facts_of(ranks), result), result)
    assert [sentence.split(", ")[0] for sentence in sentences] == [
        *(f"slow path: m{machine} to m{machine + 1} carries {30 + machine} Mbit/s" for machine in range(8)),
        "slow paths: 4 more",
    ]


def test_a_switch_that_slows_most_paths_is_said_once() -> None:
    ranks, links = [2] * 6, even(6)
    result = measured(links, [Link(8e9, 8e9, 1e-6)] * 6, ranks)
    for i in range(6):
        for j in range(6):
            if i != j and abs(i - j) != 1:
                result.rate[i, j] /= 2
    assert findings(infer(facts_of(ranks), result), result) == [
        "slow paths: 20 of 30 carry less than 80 % of what both their links do; "
        "the switch between the machines is slow, or it or the machines were busy"
    ]


def test_speeds_have_no_more_digits_than_a_measurement() -> None:
    result = Measured(
        np.array([[math.nan, 25123456.7], [24987654.3, math.nan]]),
        np.array([[math.nan, 1e-4], [1e-4, math.nan]]),
        np.full(2, math.nan),
        np.full(2, math.nan),
    )
    assert {
        round(speed / 1e3)
        for link in links_of(infer(facts_of([1, 1]), result).topology)
        for speed in (link.up, link.down)
    } == {
        25125,
        25000,
    }
