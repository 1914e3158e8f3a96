"""The choice of a setting, and the reason for it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from paceline.calibration import tune as fitted
from paceline.tune.estimate import Estimate, Rates, estimate, ratio
from paceline.tune.run import Run
from paceline.tune.setting import Samples, Setting


@dataclass(frozen=True)
class Row:
    """A setting that was tried.

    throughput: in the unit of `Samples.unit`; None if the setting failed, for the `reason`. effective_batch: None if
    the batch is not known. early: whether it failed because the script ended too early.
    """

    setting: Setting
    throughput: Estimate | None
    runs: int
    effective_batch: int | None
    reason: str = ""
    early: bool = False


@dataclass(frozen=True)
class Choice:
    """The setting that is chosen, and what it is compared with.

    fastest: the row with the highest throughput among the search's leaders; `chosen` ties with it and demands less, or
    is the same. next, default: the next best setting, and the one that a framework takes by itself; None if it was not
    measured or is the chosen one. margin, gain: how many times as fast as these the chosen one is.
    """

    chosen: Row
    fastest: Row
    next: Row | None = None
    margin: Estimate | None = None
    default: Row | None = None
    gain: Estimate | None = None


def rows(runs: Sequence[Run], samples: Samples) -> list[Row]:
    """Return a row for each setting that was tried, the fastest first and those that failed last."""
    found = []
    for setting in dict.fromkeys(run.setting for run in runs):
        own = [run for run in runs if run.setting == setting]
        reason = next((run.reason for run in own if run.reason), "")
        size = samples.per_step(setting) if setting.batch is not None else None
        speed = None if reason else estimate(throughputs(own, setting, samples))
        found.append(Row(setting, speed, len(own), size, reason, any(run.early for run in own)))
    return sorted(found, key=lambda row: -row.throughput.value if row.throughput else 0.0)


def choose(
    runs: Sequence[Run],
    found: Sequence[Row],
    leaders: Collection[Setting],
    samples: Samples,
    default: Setting | None = None,
) -> Choice | None:
    """Choose among the leaders of the search; None if none of them has been measured.

    The least demanding of those that tie with the fastest, as TIE says, is chosen. found: the rows of the runs.
    default: the setting that a framework takes by itself.
    """
    measured = {row.setting: row for row in found if row.throughput is not None}
    possible = [row for row in measured.values() if row.setting in leaders]
    if not possible:
        return None
    fastest = max(possible, key=_value)
    chosen = min((row for row in possible if ties(row, fastest)), key=lambda row: row.setting.demand)
    second = max((row for row in measured.values() if row is not chosen), key=_value, default=None)
    usual = measured.get(default) if default not in (None, chosen.setting) else None

    def against(row: Row | None) -> Estimate | None:
        return ratio(_of(runs, chosen.setting, samples), _of(runs, row.setting, samples)) if row else None

    return Choice(chosen, fastest, second, against(second), usual, against(usual))


def is_clear(found: Sequence[Row]) -> bool:
    """Return whether one of these rows is faster than the others beyond doubt.

    That is so if it has two runs or more, each other row has so, too, or failed, and the interval of none of them
    reaches its own.
    """
    measured = [row for row in found if row.throughput is not None]
    if not measured or any(row.runs < fitted.CLEAR_RUNS for row in measured):
        return False
    first, *others = (row.throughput for row in measured if row.throughput is not None)
    return all(other.high < first.low for other in others)


def ties(row: Row, fastest: Row) -> bool:
    """Return whether a row counts as being as fast as the fastest."""
    mine, best = row.throughput, fastest.throughput
    if mine is None or best is None:
        return False
    return mine.value >= (1 - fitted.TIE) * best.value and mine.high >= best.low


def throughputs(runs: Sequence[Run], setting: Setting, samples: Samples) -> Rates:
    """Return the throughput of every block of these runs of one setting."""
    return [[rate * samples.per_step(setting) for rate in run.rates] for run in runs]


def _of(runs: Sequence[Run], setting: Setting, samples: Samples) -> Rates:
    return throughputs([run for run in runs if run.setting == setting], setting, samples)


def _value(row: Row) -> float:
    return row.throughput.value if row.throughput else 0.0
