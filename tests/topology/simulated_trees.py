"""Trees of machines and switches, what measuring them would find, and how far off what is inferred from that is."""

from __future__ import annotations

import math
from random import Random

import numpy as np
from max_min import FairNetwork

from paceline.adapt.measure.schedule import crowds
from paceline.calibration import measure as fitted
from paceline.topology import Link, Node, Topology
from paceline.topology.discover import Placement, RankFacts
from paceline.topology.infer import alone, infer, own_speeds
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
        schedules = [crowds(len(part), fitted.LEAST_ROUNDS) for part in parts]
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


def hindering_tree(chance: Random) -> Topology:
    """Racks of equal machines, each with half to four fifths of what its machines send, and some single machines."""

    def rack() -> Spec:
        size = chance.randint(2, 6)
        return (round(size * chance.choice([0.5, 0.6, 0.7, 0.8]), 2), [1] * size)

    return tree([*(rack() for _ in range(chance.randint(2, 5))), *[1.0] * chance.randint(0, 3)])
