"""The search for the best setting with real runs, which continues where an earlier one stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from paceline.lab.lab import Lab
from paceline.tune.cache import Known
from paceline.tune.choice import Choice, Row, choose, is_clear, rows
from paceline.tune.halving import Search
from paceline.tune.run import Run
from paceline.tune.setting import Samples, Setting
from paceline.tune.trial import Effort, trial


@dataclass(frozen=True)
class Request:
    """The search. words: the user's command. settings: those to choose from. seconds: the longest that the search may
    take. default: the setting that a framework takes by itself. lab: the machines of the job, None for this one.
    """

    words: tuple[str, ...]
    settings: Sequence[Setting]
    samples: Samples
    effort: Effort
    seconds: float
    default: Setting | None = None
    lab: Lab | None = None


@dataclass(frozen=True)
class Found:
    """The result of a search.

    choice: None if no setting could be measured. measured: how many runs it made itself. unused: whether the script was
    seen not to use Paceline, which ended the search.
    """

    rows: list[Row]
    choice: Choice | None
    known: Known
    measured: int
    interrupted: bool = False
    unused: bool = False


class _Unused(Exception):
    """The script does not use Paceline, so that no run of it can be measured."""


def tune(
    request: Request,
    environ: Mapping[str, str],
    known: Known,
    keep: Callable[[Known], None],
    progress: Callable[[Setting | None], None],
) -> Found:
    """Search, and return what was found, also after Ctrl-C or when the time is up.

    known: what is known already; such runs are not repeated. keep: called with what is known after each run.
    progress: called with each setting before it runs, and with None after it.
    """
    until = time.monotonic() + request.seconds
    begun, longest = len(known.runs), 0.0
    runs: list[Run] = []

    unused: dict[int, Run] = {}  # by the number of processes with which the script did not use Paceline
    largest = max(request.settings, key=lambda setting: setting.processes, default=None)

    def tried(setting: Setting, number: int) -> Run:
        nonlocal known, longest
        run = known.find(setting, number, request.effort.of(number))
        if run is None:
            began = time.monotonic()
            run = trial(request.words, setting, number, environ, request.effort, until, request.lab)
            longest = max(longest, time.monotonic() - began)
            known = replace(known, runs=(*known.runs, run))
            keep(known)
        return run

    def measure(setting: Setting, number: int) -> float | None:
        progress(setting)
        before = unused.get(setting.processes)
        run = replace(before, setting=setting) if before is not None else tried(setting, number)
        runs.append(run)
        if run.unused and before is None:  # perhaps it does with more processes
            unused[setting.processes] = run
            if largest is not None and (largest.processes in unused or tried(largest, 0).unused):
                raise _Unused
        progress(None)
        return median(run.rates) * request.samples.per_step(setting) if run.rates else None

    def decided(leaders: Sequence[Setting]) -> bool:
        own = [run for run in runs if run.setting in leaders]
        return is_clear(rows(own, request.samples))

    search = Search(request.settings)
    interrupted = is_unused = False
    try:
        search.run(measure, lambda: time.monotonic() + longest < until, decided)
    except KeyboardInterrupt:
        interrupted = True
    except _Unused:
        is_unused = True
    found = rows(runs, request.samples)
    choice = choose(runs, found, search.leaders, request.samples, request.default)
    known = replace(known, chosen=choice.chosen.setting if choice else None, complete=search.complete)
    keep(known)
    return Found(found, choice, known, len(known.runs) - begun, interrupted, is_unused)
