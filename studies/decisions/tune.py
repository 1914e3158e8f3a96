"""Simulated searches for the fastest setting, on machines with 2 to 16 CPUs.

Rates of settings differ by up to a factor of four, runs of one setting by 5 %, steps by 10 %. The first step takes ten
times as long and the next two twice as long; then up to 16 steps take two thirds of the time, because their batches
were read in advance. A start takes three seconds, and a run's steps are asked for every fifth of a second.
"""

from __future__ import annotations

from random import Random
from statistics import fmean, median

from decisions.subject import Subject
from paceline.calibration import tune as record
from paceline.cpu.budget import budget
from paceline.tune.choice import choose, is_clear, rows
from paceline.tune.halving import Search
from paceline.tune.run import Run, block_rates
from paceline.tune.setting import Samples, Setting
from paceline.tune.space import space
from paceline.tune.trial import Effort, Steps

CPUS = (2, 4, 8, 16)
SEARCHES = 40
START = 3.0
LOOK = 0.2
SAMPLES = Samples(strong=True)
EFFORT = Effort()


def figures() -> dict[str, float]:
    searches = [_search(cpus, seed) for cpus in CPUS for seed in range(SEARCHES)]
    return {
        "within 3 % of the best": fmean(share >= 0.97 for share, _, _ in searches),
        "chosen over the best": fmean(share for share, _, _ in searches),
        "runs": fmean(runs for _, runs, _ in searches),
        "seconds": fmean(seconds for _, _, seconds in searches),
    }


def _search(cpus: int, seed: int) -> tuple[float, int, float]:
    """The rate of the chosen setting over the best one's, the runs of the search, and the seconds that they took."""
    chance = Random(f"{cpus} {seed}")
    settings = space(budget(range(cpus), None), [[cpu] for cpu in range(cpus)])
    usual = 2 * 50 ** chance.random()
    rates = {setting: usual * 4 ** chance.uniform(-1, 0) for setting in settings}
    runs: list[Run] = []
    spent = 0.0

    def measure(setting: Setting, number: int) -> float | None:
        nonlocal spent
        # The same run of the same setting is the same in every search.
        rate = rates[setting]
        steps = _run(rate, EFFORT.of(number), Random(f"{cpus} {seed} {setting} {number}"))
        runs.append(Run(setting, number, EFFORT.of(number), block_rates(steps.warm())))
        spent += START + (steps.begins[-1] - steps.begins[0]) / 1e9
        return median(runs[-1].rates) * SAMPLES.per_step(setting) if runs[-1].rates else None

    def decided(leaders: list[Setting]) -> bool:
        return is_clear(rows([run for run in runs if run.setting in leaders], SAMPLES))

    search = Search(settings)
    search.run(measure, decided=decided)
    choice = choose(runs, rows(runs, SAMPLES), search.leaders, SAMPLES)
    chosen = rates[choice.chosen.setting] if choice else 0.0
    return chosen / max(rates.values()), len(runs), spent


def _run(rate: float, seconds: float, chance: Random) -> Steps:
    rate *= 1 + chance.gauss(0, 0.05)
    in_advance = chance.randint(0, 16)
    steps, clock, next_look = Steps(), 0.0, LOOK
    while True:
        steps.begins.append(round(1e9 * clock))
        number = len(steps.begins)
        slower = 10 if number == 1 else 2 if number < 4 else 2 / 3 if number < 4 + in_advance else 1
        clock += slower * max(0.1, 1 + chance.gauss(0, 0.1)) / rate
        if clock >= next_look:
            if steps.enough(seconds):
                return steps
            next_look = clock + LOOK


SUBJECTS = {
    "search": Subject(
        record,
        (
            "WARM_UP_STEPS",
            "WARM_UP_SECONDS",
            "LEAST_STEPS",
            "SLOW",
            "LEAST_SLOW_STEPS",
            "BLOCKS",
            "FIRST_SHARE",
            "ETA",
            "FINAL_RUNS",
            "MOST_REPEATS",
            "TIE",
            "CLEAR_RUNS",
        ),
        figures,
        bounds={"ETA": (2, 99)},
    )
}
