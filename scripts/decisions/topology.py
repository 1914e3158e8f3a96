"""Simulated trees of machines and switches, measured with 3 % of noise.

switches: trees of racks that hinder their machines, what is inferred of them, and how far off transfers are there; and
trees without a switch that hinders, where none must be found. named: eight equal machines, and eight of which one has
70 % of the others' speed or five times their latency: what is named as slow.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np

from decisions.subject import Subject
from paceline.calibration import topology as record
from paceline.topology.discover import RankFacts
from paceline.topology.infer import infer
from paceline.topology.judge import findings

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "topology"))

from simulated_trees import errors, hindering_tree, inferred, measured, switches, tree

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


def named() -> dict[str, float]:
    def share(sentence: str, **different: float) -> float:
        return fmean(any(sentence in one for one in _named(seed, **different)) for seed in range(TREES))

    return {
        "named for nothing": share(""),
        "a link of 0.7": share("slow link: m0", speed=0.7),
        "ranks of 0.5": share("slow machine", local=0.5),
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
        latency=100e-6 * late * [[1 + chance.uniform(-0.3, 0.3) for _ in range(8)] for _ in range(8)],
        local_rate=rates,
        local_latency=np.full(8, 1e-6),
        waited=np.array([0.2 * chance.random() for _ in range(8)]),
    )
    return findings(infer([RankFacts(f"id {number}", f"m{number}") for number in range(8)], result), result)


SUBJECTS = {
    "switches": Subject(
        record,
        ("APART", "HINDERED", "USUAL", "FULL", "MOSTLY", "NEWS", "BETTER", "PROVEN", "GOOD", "NARROW"),
        found,
        differences=("HINDERED", "NARROW"),
        bounds={"USUAL": (0, 1), "FULL": (0, 1), "MOSTLY": (0, 1)},
    ),
    "named": Subject(
        record,
        ("SLOW_LINK", "SLOW_MACHINE", "LATE", "LATE_SECONDS", "BUSY", "LATE_SIDE_SECONDS", "LATE_SIDE"),
        named,
        differences=("SLOW_LINK", "SLOW_MACHINE"),
    ),
}
