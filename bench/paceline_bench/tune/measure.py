"""Compares the search of `paceline tune` with a search that tries every setting as often."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from paceline.cpu.budget import CpuBudget, physical_cores
from paceline.tune.cache import Known
from paceline.tune.choice import Row, rows, throughputs
from paceline.tune.estimate import ratio
from paceline.tune.run import Run
from paceline.tune.setting import Samples, Setting
from paceline.tune.space import space
from paceline.tune.trial import Effort, trial
from paceline.tune.tune import Request, tune
from paceline_bench.table import column

BATCH = 16
"""Samples of each process and step, as in `training.py`."""
NAMES = ("cnn", "transformer", "input_bound")
_TRAINING = Path(__file__).with_name("training.py")
_SAMPLES = Samples()

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Comparison:
    """Both searches for one training.

    settings: how many the exhaustive search tried. tune_seconds, exhaustive_seconds: how long the searches took. share:
    the first over the second. same_share: the same, if the exhaustive search had tried only what `paceline tune` does,
    that is, not two threads for each CPU. chosen, best: the settings that they found. loss: by how much the chosen one
    is slower than the best, as the exhaustive search measured both; 0.03 is 3 %. gain, low, high: how many times as
    fast the chosen one is as torch's default, one process with a thread for each CPU, with the 95 % interval. several:
    how many times as fast the best setting of several processes is as the best of one; 0 if there is none of several.
    """

    script: str = field(metadata=column("script"))
    settings: int
    tune_seconds: float = field(metadata=column("tune(s)", "{:.1f}"))
    exhaustive_seconds: float = field(metadata=column("exhaustive(s)", "{:.1f}"))
    share: float = field(metadata=column("time", "{:.0%} ({:.0%})", "same_share"))
    same_share: float
    chosen: str = field(metadata=column("chosen"))
    best: str = field(metadata=column("best"))
    loss: float = field(metadata=column("loss", "{:.1%}"))
    gain: float = field(metadata=column("to default", "{:.2f}× ({:.2f}–{:.2f})", "low", "high"))
    low: float
    high: float
    several: float = field(metadata=column("several", "{:.2f}×"))


class Failed(Exception):
    """A search in which nothing could be measured; the message says why."""


def compare(
    name: str, environ: Mapping[str, str], budget: CpuBudget, effort: Effort, rounds: int, progress: Progress
) -> tuple[Comparison, list[Row]]:
    """Search twice, and return the comparison and the rows of the exhaustive search.

    rounds: how often the exhaustive search runs each setting, always for `effort.seconds`. progress: gets a word about
    what runs. Raises Failed if a search measured nothing.
    """
    words = (sys.executable, str(_TRAINING), name)
    cores = physical_cores(budget.affinity)
    default = Setting(1, max(1, int(budget.cpus)), batch=BATCH)
    request = Request(words, space(budget, cores, [BATCH]), _SAMPLES, effort, 3600.0, default)

    began = time.monotonic()
    found = tune(request, environ, Known(), lambda _: None, lambda one: progress(f"{name}, tune: {one or ''}"))
    between = time.monotonic()
    if found.interrupted:
        raise KeyboardInterrupt
    every = space(budget, cores, [BATCH], threads_per_cpu=2)
    spent = dict.fromkeys(every, 0.0)
    runs: list[Run] = []
    for number in range(rounds):
        for setting in every[:: -1 if number % 2 else 1]:
            if any(run.reason for run in runs if run.setting == setting):
                continue
            progress(f"{name}, round {number + 1} of {rounds}: {setting}")
            start = time.monotonic()
            runs.append(trial(words, setting, number + 1, environ, effort, start + effort.timeout))
            spent[setting] += time.monotonic() - start
    tune_seconds, exhaustive_seconds = between - began, sum(spent.values())

    tried = rows(runs, _SAMPLES)
    measured = {row.setting: row for row in tried if row.throughput is not None}
    if found.choice is None or found.choice.chosen.setting not in measured or default not in measured:
        raise Failed(next((row.reason for row in (*found.rows, *tried) if row.reason), "nothing was measured"))
    chosen, best = measured[found.choice.chosen.setting], tried[0]
    gain = ratio(*(throughputs([r for r in runs if r.setting == s], s, _SAMPLES) for s in (chosen.setting, default)))
    one, several = (
        max((_value(row) for row in measured.values() if (row.setting.processes > 1) == many), default=0.0)
        for many in (False, True)
    )
    comparison = Comparison(
        name,
        len(every),
        tune_seconds,
        exhaustive_seconds,
        tune_seconds / exhaustive_seconds,
        tune_seconds / sum(spent[setting] for setting in request.settings),
        str(chosen.setting),
        str(best.setting),
        1 - _value(chosen) / _value(best),
        gain.value,
        gain.low,
        gain.high,
        several / one,
    )
    return comparison, tried


def _value(row: Row) -> float:
    return row.throughput.value if row.throughput else 0.0
