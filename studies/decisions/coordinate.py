"""Simulated jobs: such as try sizes of batches while they run, and such as send buffers of policy `graph`.

tuner: a step takes from 5 ms to 0.5 s, and one in 30 is held up. The other sizes take up to 2, 5, 10 or 30 % more or
less time than the first one. A fourth of the jobs have a step of other requests after every 10 to 100. Steps have noise
of 1 to 2 % on a quiet machine and 10 to 20 % on a noisy one, and as much again that changes slowly, over some 20 steps.
graph: steps of four networks, of 0.3 s without communication, on four machines with links of 1 and of 10 Gbit/s, by the
simulator: the geometric mean.
"""

from __future__ import annotations

import math
from functools import partial
from random import Random
from statistics import fmean, geometric_mean

from decisions.subject import Subject
from paceline.calibration import coordinate as record
from paceline.coordinate.choices import SIZES, sizes
from paceline.lab.lab import switched
from paceline.simulate import models
from paceline.simulate.answer import answer
from paceline.simulate.job import Compute
from paceline.simulate.workload import Workload
from paceline.topology import Link

JOBS = 1200
STEPS = 1000
MODELS = ("ResNet-50", "VGG16", "GoogLeNet", "GPT-2")
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


def graph() -> dict[str, float]:
    return {f"seconds at {speed} Gbit/s": geometric_mean(_step(name, speed) for name in MODELS) for speed in (1, 10)}


def _step(model: str, speed: float) -> float:
    gradients = models.model(model).gradients
    job = Workload(gradients=gradients, compute=Compute(seconds=0.3), policy="graph")
    return answer(job.on(switched([1] * 4, Link(speed * 125e6, speed * 125e6, 25e-6)))).step.seconds


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
} | {"graph": Subject(record, ("GRAPH_BYTES",), graph)}
