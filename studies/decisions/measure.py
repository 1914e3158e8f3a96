"""Simulated measurements of links.

uplinks: 2 to 12 machines with links of 0.2 to 1 times the same speed. A figure is up to 3 % too low; in one round of
ten a machine's rank waits for its core, and what it sends and receives arrives at 0.3 to 0.9 of its rate.
crowds: trees of racks that hinder their machines, measured with 3 % of noise, as for the switches of `topology`.
latencies: round trips of 100 us, of which half take up to 20 us longer and one in ten up to 1 ms; the first four take
five times as long, as connections do that were idle. The last figure is the time that it takes where a round trip takes
20 ms.
"""

from __future__ import annotations

import math
from random import Random
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np

from decisions.simulated import FairNetwork, errors, hindering_tree, inferred, tree
from decisions.subject import Subject
from paceline.adapt.measure import pairs, uplinks
from paceline.calibration import measure as record
from paceline.topology.infer import alone, own_speeds
from paceline.topology.measured import Load

MACHINES = (2, 3, 5, 8, 12)
CASES = 60
TREES = 30
PAIRS = 2000


def own_links() -> dict[str, float]:
    found = [_own_links(machines, seed) for machines in MACHINES for seed in range(CASES)]
    return {
        "error in %": 100 * fmean(off for off, _ in found),
        "of the worst 5 %": 100 * float(np.quantile([off for off, _ in found], 0.95)),
        "rounds": fmean(rounds for _, rounds in found),
    }


def _own_links(machines: int, seed: int) -> tuple[float, int]:
    """How far off transfers of pairs are at worst, and the rounds in which that was measured."""
    chance, rounds = Random(seed), 0
    network = FairNetwork(tree([chance.uniform(0.2, 1) for _ in range(machines)]))

    def loaded(_: Any, __: Any, ___: Any, schedules: Any, *____: Any) -> list[Load]:
        nonlocal rounds
        rates = []
        for to in schedules[0]:
            held_up = [chance.uniform(0.3, 0.9) if chance.random() < 0.1 else 1.0 for _ in range(machines)]
            fair = network.rates(list(enumerate(to)))
            rates.append(
                [
                    rate * (1 - chance.uniform(0, 0.03)) * min(held_up[source], held_up[to[source]])
                    for source, rate in enumerate(fair)
                ]
            )
        rounds = len(rates)
        return [Load(tuple(range(machines)), np.array(schedules[0]), np.array(rates))]

    real = uplinks.loaded, uplinks._latencies
    uplinks.loaded, uplinks._latencies = loaded, lambda *_: np.full((machines, machines), 1e-4)
    try:
        group: Any = SimpleNamespace(rank=0)
        measured = uplinks.uplinks(group, [[number] for number in range(machines)], False)
    finally:
        uplinks.loaded, uplinks._latencies = real
    carried = alone(own_speeds(measured.rate))
    each = [(i, j) for i in range(machines) for j in range(machines) if i != j]
    return max(abs(math.log(carried[i, j] / network.alone(i, j))) for i, j in each), rounds


def crowds() -> dict[str, float]:
    off = []
    for seed in range(TREES):
        known = hindering_tree(Random(seed))
        off.append(float(np.mean(errors(known, inferred(known, 0.03, seed)[0], Random(seed)))))
    return {"error in %": 100 * fmean(off), "worst": 100 * max(off)}


def latencies() -> dict[str, float]:
    near = [_latency(100e-6, seed) for seed in range(PAIRS)]
    off = [found / 50e-6 - 1 for found, _ in near]
    return {
        "error in %": 100 * fmean(off),
        "of the worst 5 %": 100 * float(np.quantile(off, 0.95)),
        "milliseconds": 1e3 * fmean(took for _, took in near),
        "of 20 ms": 1e3 * fmean(_latency(20e-3, seed)[1] for seed in range(100)),
    }


def _latency(trip: float, seed: int) -> tuple[float, float]:
    """The latency that is found, and the seconds that this takes."""
    chance, clock, trips = Random(seed), 0.0, 0

    def answer(*_: Any) -> None:
        nonlocal clock, trips
        more = chance.uniform(0, 1e-3) if chance.random() < 0.1 else max(0.0, chance.uniform(-20e-6, 20e-6))
        clock += (trip + more) * (5 if trips < 4 and trip < 1e-3 else 1)
        trips += 1

    group: Any = SimpleNamespace(rank=0, send=lambda *_: None, recv=answer)
    real = pairs.time
    pairs.time = SimpleNamespace(monotonic=lambda: clock, perf_counter=lambda: clock)
    try:
        return pairs.latency(group, 1), clock
    finally:
        pairs.time = real


SUBJECTS = {
    "uplinks": Subject(record, ("MOST_UPLINK_ROUNDS", "OFTEN", "FEW_MACHINES"), own_links),
    "crowds": Subject(record, ("LEAST_ROUNDS",), crowds),
    "latencies": Subject(record, ("ROUND_TRIPS", "WARM_UP_TRIPS", "LATENCY_SECONDS"), latencies),
}
