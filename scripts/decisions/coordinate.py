"""Simulated jobs that try sizes of batches while they run.

A step takes from 5 ms to 0.5 s, and one in 30 is held up. The other sizes take up to 2, 5, 10 or 30 % more or less time
than the first one. A fourth of the jobs have a step of other requests after every 10 to 100. Steps have noise of 1 to
2 % on a quiet machine and 10 to 20 % on a noisy one, and as much again that changes slowly, over some 20 steps.
"""

from __future__ import annotations

import math
from functools import partial
from random import Random
from statistics import fmean

from decisions.subject import Subject
from paceline.calibration import coordinate as record
from paceline.coordinate.choices import SIZES, sizes

JOBS = 1200
STEPS = 1000
MEMORY = 1 / 20
"""The part of the slow noise that is new in each step."""


def figures(noise: float) -> dict[str, float]:
    jobs = [_job(Random(seed), noise) for seed in range(JOBS)]
    return {
        "within 3 % of the best": fmean(final <= 1.03 * best for final, best, _, _ in jobs),
        "1 % slower than before": fmean(final > 1.01 for final, _, _, _ in jobs),
        "steps": fmean(steps for _, _, steps, _ in jobs),
        f"{STEPS} steps over the best's": fmean(took / (STEPS * best) for _, best, _, took in jobs),
    }


def _job(chance: Random, least_noise: float) -> tuple[float, float, int, float]:
    """The time of a step with the size that is kept and with the best, how many steps that took, and a job's time."""
    first = SIZES[-1]
    spread = chance.choice([0.02, 0.05, 0.1, 0.3])
    costs = {size: 1.0 if size == first else 1 + chance.uniform(-spread, spread) for size in SIZES}
    seconds = 0.005 * 100 ** chance.random()
    noise = least_noise * chance.uniform(1, 2)
    unlike = chance.randint(10, 100) if chance.random() < 0.25 else 0
    tuner = sizes(first)
    took = slowly = 0.0
    for step in range(1, STEPS + 1):
        held_up = chance.uniform(0.1, 2) if chance.random() < 1 / 30 else 0.0
        slowly = (1 - MEMORY) * slowly + MEMORY * chance.gauss(0, noise * math.sqrt(2 / MEMORY))
        lasted = costs[tuner.choice] * (max(0.1, 1 + chance.gauss(0, noise) + slowly) + held_up)
        took += lasted
        if not tuner.outcome:
            tuner.add(seconds * lasted, 160 if unlike and step % unlike == 0 else 161)
    return costs[tuner.choice], min(costs.values()), tuner.steps, took


CONSTANTS = (
    "WARM_UP_STEPS",
    "COUNTED_STEPS",
    "MOST_COUNTED_STEPS",
    "TURN_SECONDS",
    "ROUNDS",
    "FIRST_LOOK",
    "MUCH_WORSE",
    "BETTER",
    "UNLIKE_STEPS",
)
SUBJECTS = {
    name: Subject(record, CONSTANTS, partial(figures, noise), differences=("MUCH_WORSE", "BETTER"))
    for name, noise in (("tuner", 0.01), ("noisy tuner", 0.1))
}
