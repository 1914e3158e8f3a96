"""Switches from measurements: what was measured on a known tree gives a tree on which transfers get the same."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from counting import calls
from hypothesis import given, settings
from hypothesis import strategies as st
from max_min import FairNetwork

from paceline.calibration.measure import LEAST_ROUNDS
from paceline.measure.schedule import crowds
from paceline.topology import Link, Node, Topology
from paceline.topology.discover import Placement, RankFacts
from paceline.topology.infer import alone, infer, own_speeds
from paceline.topology.judge import findings
from paceline.topology.measured import Load, Measured
from paceline.topology.switches import LEAST_MACHINES, below

SPEED = 1e8
"""Of a machine's link where nothing else is said."""
Spec = float | tuple[float | tuple[float, float], list["Spec"]]
"""A machine's speed, or a switch's up and down with what is below, as multiples of SPEED."""


def tree(children: list[Spec]) -> Topology:
    count = 0

    def node(spec: Spec) -> Node:
        nonlocal count
        if not isinstance(spec, tuple):
            name, count = f"m{count}", count + 1
            return Node("machine", name, Link(spec * SPEED, spec * SPEED, 20e-6), (Node("rank", "", Link(1e12, 1e12)),))
        speeds, inside = spec
        up, down = speeds if isinstance(speeds, tuple) else (speeds, speeds)
        return Node("switch", "", Link(up * SPEED, down * SPEED, 10e-6), tuple(map(node, inside)))

    return Topology("known", Node("switch", "top", None, tuple(map(node, children))))


def measured(known: Topology, noise: float, chance: Random) -> Measured:
    """What `paceline check` would measure on this network; each figure is up to `noise` off."""
    network = FairNetwork(known)
    count = len(network.above)
    rate, latency = np.full((2, count, count), np.nan)
    for i in range(count):
        for j in range(count):
            if i != j:
                rate[i, j] = network.alone(i, j) * (1 + chance.uniform(-noise, noise))
                latency[i, j] = network.latencies(i, j)
    carried = alone(own_speeds(rate))
    loads: list[Load] = []
    parts = [list(range(count))] if count >= LEAST_MACHINES else []
    while parts:
        schedules = [crowds(len(part), LEAST_ROUNDS) for part in parts]
        most = max(map(len, schedules))
        rounds = [[schedule[turn % len(schedule)] for turn in range(most)] for schedule in schedules]
        rates: list[list[list[float]]] = [[] for _ in parts]
        for turn in range(most):
            pairs = [
                (part[place], part[target])
                for part, to in zip(parts, rounds, strict=True)
                for place, target in enumerate(to[turn])
            ]
            got = [rate * (1 + chance.uniform(-noise, noise)) for rate in network.rates(pairs)]
            for number, part in enumerate(parts):
                rates[number].append(got[: len(part)])
                del got[: len(part)]
        found = [
            Load(tuple(part), np.array(to), np.array(got)) for part, to, got in zip(parts, rounds, rates, strict=True)
        ]
        loads += found
        parts = [
            sorted(one.machines)
            for load in found
            for one in below(load, carried)
            if len(one.machines) >= LEAST_MACHINES
        ]
    return Measured(rate, latency, np.full(count, np.nan), np.full(count, np.nan), tuple(loads))


def inferred(known: Topology, noise: float = 0.03, seed: int = 0) -> tuple[Placement, Measured]:
    facts = [RankFacts(f"id {machine}", node.name) for machine, (node, _) in enumerate(known.machines())]
    result = measured(known, noise, Random(seed))
    return infer(facts, result), result


def switches(placement: Placement) -> dict[tuple[int, ...], tuple[float, float]]:
    """The machines below each switch, by number, and its speeds up and down as multiples of SPEED."""
    return {
        tuple(int(below.name[1:]) for below in node.walk() if below.kind == "machine"): (
            node.uplink.up / SPEED,
            node.uplink.down / SPEED,
        )
        for node in placement.topology.root.walk()
        if node.kind == "switch" and node.uplink is not None
    }


def errors(known: Topology, found: Placement, chance: Random) -> list[float]:
    """How far off what transfers would get on the found tree is, as logarithms, all machines sending at once."""
    true, other = FairNetwork(known), FairNetwork(found.topology)
    count = len(true.above)
    off: list[float] = []
    for _ in range(8):
        to = chance.sample(range(count), count)
        pairs = [(machine, target) for machine, target in enumerate(to) if machine != target]
        places = {rank: place for place, rank in enumerate(found.ranks)}
        elsewhere = other.rates([(places[i], places[j]) for i, j in pairs])
        off += [abs(math.log(one / two)) for one, two in zip(true.rates(pairs), elsewhere, strict=True)]
    return off


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ([(1, [1, 1]), (1, [1, 1])], {(0, 1): (1, 1), (2, 3): (1, 1)}),
        ([(2, [1] * 4)] * 4, {tuple(range(4 * n, 4 * n + 4)): (2, 2) for n in range(4)}),
        ([(2, [1] * 4)] + [(10, [1] * 4)] * 3, {(0, 1, 2, 3): (2, 2)}),
        ([((1, 3), [1] * 4), ((3, 1.5), [1] * 4), 1, 1], {(0, 1, 2, 3): (1, 3), (4, 5, 6, 7): (3, 1.5)}),
        ([(2, [1] * 4), (1.5, [1] * 3), (1, [1] * 2), 1, 1, 1], {(0, 1, 2, 3): 2, (4, 5, 6): 1.5, (7, 8): 1}),
        (
            [(2, [(1.5, [1] * 3)] * 2)] * 3,
            {tuple(range(6 * n, 6 * n + 6)): 2 for n in range(3)}
            | {tuple(range(3 * n, 3 * n + 3)): 1.5 for n in range(6)},
        ),
        ([1] * 12, {}),
        ([1, 0.5, 0.2, 1, 1, 0.7, 1, 0.3], {}),
        ([(10, [1] * 4)] * 3, {}),
    ],
)
def test_switches_that_hinder_are_found_and_no_others(
    children: list[Spec], expected: dict[tuple[int, ...], float | tuple[float, float]]
) -> None:
    found, _ = inferred(tree(children))
    both = {machines: speed if isinstance(speed, tuple) else (speed, speed) for machines, speed in expected.items()}
    assert switches(found) == {machines: pytest.approx(speeds, rel=0.05) for machines, speeds in both.items()}


def hindering_tree(chance: Random) -> Topology:
    """Racks of equal machines, each with half to four fifths of what its machines send, and some single machines."""

    def rack() -> Spec:
        size = chance.randint(2, 6)
        return (round(size * chance.choice([0.5, 0.6, 0.7, 0.8]), 2), [1] * size)

    return tree([*(rack() for _ in range(chance.randint(2, 5))), *[1.0] * chance.randint(0, 3)])


def test_on_inferred_trees_transfers_get_what_they_get_on_the_true_ones() -> None:
    """Not on each as exactly: some racks that together have as many machines as all others may be taken for one."""
    off: list[float] = []
    for seed in range(150):
        known = hindering_tree(Random(seed))
        found, _ = inferred(known, seed=seed)
        off.append(float(np.mean(errors(known, found, Random(seed)))))
    assert np.mean(off) < 0.04
    assert np.quantile(off, 0.95) < 0.1
    assert max(off) < 0.25


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=4, max_size=16), st.floats(0, 0.1), st.integers(0, 99))
def test_noise_makes_no_switches(speeds: list[float], noise: float, seed: int) -> None:
    found, _ = inferred(tree([*speeds, 1.0, 1.0]), noise, seed)
    assert switches(found) == {}


def test_machines_that_are_numbered_across_racks_are_placed_by_rack() -> None:
    known = tree([(1, [1] * 3), (1, [1] * 3)])
    result = measured(known, 0.02, Random(1))
    mixed = [0, 2, 4, 1, 3, 5]  # machine n of what was measured is mixed[n] of the tree
    where = np.argsort(mixed)
    loads = tuple(
        Load(tuple(int(where[machine]) for machine in load.machines), load.to, load.rate) for load in result.loads
    )
    order = np.ix_(mixed, mixed)
    again = Measured(result.rate[order], result.latency[order], result.local_rate, result.local_latency, loads)
    found = infer([RankFacts(f"id {machine}", f"m{machine}") for machine in range(6)], again)
    assert set(switches(found)) == {(0, 3, 1), (2, 4, 5)} or {tuple(sorted(one)) for one in switches(found)} == {
        (0, 1, 3),
        (2, 4, 5),
    }
    assert sorted(found.ranks) == list(range(6)) and found.ranks != tuple(range(6))


def test_latencies_of_two_buildings_show_them() -> None:
    known = tree([(10, [1] * 3), (10, [1] * 3)])
    result = measured(known, 0.02, Random(1))
    far = np.not_equal.outer(np.arange(6) < 3, np.arange(6) < 3)
    result.latency[far] += 2e-3
    found = infer([RankFacts(f"id {machine}", f"m{machine}") for machine in range(6)], result)
    links = [node.uplink for node in found.topology.root.walk() if node.kind == "switch" and node.uplink is not None]
    assert set(switches(found)) == {(0, 1, 2), (3, 4, 5)}
    assert sum(link.latency for link in links) == pytest.approx(2.02e-3, rel=0.05)


def test_what_shares_a_link_is_said() -> None:
    found, result = inferred(tree([(1.5, [1] * 3), (3, [1] * 3), 1, 1, 1, 1]), noise=0)
    assert findings(found, result) == [
        "shared link: m0, m1, m2, below switch-1, send 1.2 Gbit/s together, though their links carry 2.4 Gbit/s, "
        "and receive 1.2 Gbit/s together, though their links carry 2.4 Gbit/s"
    ]


def test_the_work_grows_with_the_pairs_of_machines() -> None:
    def work(racks: int) -> int:
        facts = [RankFacts(f"id {machine}", f"m{machine}") for machine in range(8 * racks)]
        result = measured(tree([(4, [1] * 8)] * racks), 0.03, Random(3))
        found: list[Placement] = []
        count = calls(lambda: found.append(infer(facts, result)))
        assert sorted(switches(found[0])) == [tuple(range(8 * rack, 8 * rack + 8)) for rack in range(racks)]
        return count

    assert work(8) < 5 * work(4)
