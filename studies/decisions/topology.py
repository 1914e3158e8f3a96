"""Simulated trees of machines and switches, measured with 3 % of noise.

switches: trees of racks that hinder their machines, what is inferred of them, and how far off transfers are there; and
trees without a switch that hinders, where none must be found. sides: twice three machines, and what a message between
the two takes longer; latencies have 20 % of noise. named: eight equal machines, and eight of which one has 70 % of the
others' speed, or messages of which take two or five times as long: what is named as slow.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import numpy as np

from decisions.simulated import errors, hindering_tree, inferred, measured, switches, tree
from decisions.subject import Subject
from paceline.calibration import topology as record
from paceline.topology.discover import RankFacts
from paceline.topology.infer import infer
from paceline.topology.judge import findings

TREES = 60
NOISE = 0.03


def found() -> dict[str, float]:
    off = []
    for seed in range(TREES):
        known = hindering_tree(Random(seed))
        off.append(float(np.mean(errors(known, inferred(known, NOISE, seed)[0], Random(seed)))))
    none = [tree([Random(seed).choice([0.25, 0.5, 1.0]) for _ in range(6)] + [1.0, 1.0]) for seed in range(TREES // 4)]
    false = [switches(inferred(known, NOISE, seed)[0]) for seed, known in enumerate(none)]
    return {
        "error in %": 100 * fmean(off),
        "of the worst 5 %": 100 * float(np.quantile(off, 0.95)),
        "worst": 100 * max(off),
        "switches where none is": float(sum(map(len, false))),
    }


def sides() -> dict[str, float]:
    def share(later: float) -> float:
        return fmean(bool(_sides(later, seed)) for seed in range(TREES))

    return {f"found of {1e6 * later:g} us more": share(later) for later in (0, 60e-6, 150e-6, 300e-6, 1e-3)}


def _sides(later: float, seed: int) -> dict[tuple[int, ...], tuple[float, float]]:
    """The switches above twice three machines, between which messages take 100 us and so much longer."""
    chance = Random(seed)
    result = measured(tree([(10, [1] * 3), (10, [1] * 3)]), NOISE, chance)
    way = [[100e-6 + later * ((i < 3) != (j < 3)) for j in range(6)] for i in range(6)]
    noisy = np.array(way) * [[1 + chance.uniform(-0.2, 0.2) for _ in range(6)] for _ in range(6)]
    return switches(
        infer([RankFacts(f"id {number}", f"m{number}") for number in range(6)], replace(result, latency=noisy))
    )


def named() -> dict[str, float]:
    def share(sentence: str, **different: float) -> float:
        return fmean(any(sentence in one for one in _named(seed, **different)) for seed in range(TREES))

    return {
        "named for nothing": share(""),
        "a link of 0.7": share("slow link: m0", speed=0.7),
        "ranks of 0.5": share("slow machine", local=0.5),
        "a latency of 2": share("a message takes", latency=2.0),
        "a latency of 5": share("a message takes", latency=5.0),
    }


def _named(seed: int, speed: float = 1.0, latency: float = 1.0, local: float = 1.0) -> list[str]:
    """What is said of eight machines, the first of which differs by these factors."""
    chance = Random(seed)
    known = tree([speed, *[1.0] * 7])
    result = measured(known, NOISE, chance)
    late = np.array([[latency if 0 in (i, j) else 1.0 for j in range(8)] for i in range(8)])
    rates = np.array([local, *[1.0] * 7]) * [5e9 * (1 + chance.gauss(0, 0.1)) for _ in range(8)]
    result = replace(
        result,
        latency=200e-6 * late * [[1 + chance.uniform(-0.3, 0.3) for _ in range(8)] for _ in range(8)],
        local_rate=rates,
        local_latency=np.full(8, 1e-6),
        waited=np.array([0.2 * chance.random() for _ in range(8)]),
    )
    return findings(infer([RankFacts(f"id {number}", f"m{number}") for number in range(8)], result), result)


SUBJECTS = {
    "switches": Subject(
        record,
        ("APART", "HINDERED", "USUAL", "FULL", "MOSTLY", "NEWS", "BETTER", "PROVEN", "GOOD"),
        found,
        differences=("HINDERED",),
        bounds={"USUAL": (0, 1), "FULL": (0, 1), "MOSTLY": (0, 1)},
    ),
    "sides": Subject(record, ("LATE_SIDE_SECONDS", "LATE_SIDE"), sides),
    "named": Subject(
        record,
        ("SLOW_LINK", "SLOW_MACHINE", "LATE", "LATE_SECONDS", "BUSY"),
        named,
        differences=("SLOW_LINK", "SLOW_MACHINE"),
    ),
}
