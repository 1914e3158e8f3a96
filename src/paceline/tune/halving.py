"""Successive halving: everything is tried once, and what does well is tried again, in turn with its rivals.

K. Jamieson and A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization", AISTATS 2016,
algorithm 1, with ETA in place of its 2. The budget is counted in runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Generic, TypeVar

from paceline.calibration import tune as fitted

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rung:
    """The number of settings that are tried, and the number of runs of each."""

    settings: int
    repeats: int


def rungs(count: int) -> list[Rung]:
    """Return the rungs for `count` settings, the first of which has all of them. Each takes about as many runs."""
    sizes = [count]
    while sizes[-1] > fitted.ETA:
        sizes.append(math.ceil(sizes[-1] / fitted.ETA))
    repeats = [min(fitted.MOST_REPEATS, count // size) for size in sizes] if count else []
    missing = fitted.FINAL_RUNS - sum(repeats)
    if count > 1 and missing > 0:
        repeats[-1] += missing
    return [Rung(size, times) for size, times in zip(sizes, repeats, strict=False)]


@dataclass
class Search(Generic[T]):
    """The state of a search.

    results: for every setting that was tried, the rate of each of its runs; it is empty if one failed. leaders: the
    settings among which the search has not decided yet; those that failed are not among them.
    """

    settings: Sequence[T]
    results: dict[T, list[float]] = field(default_factory=dict)
    leaders: list[T] = field(default_factory=list)
    complete: bool = False

    def run(
        self,
        measure: Callable[[T, int], float | None],
        may_go_on: Callable[[], bool] = lambda: True,
        decided: Callable[[Sequence[T]], bool] = lambda leaders: False,
    ) -> None:
        """Search to the end, or until `may_go_on`, which is asked before every run, returns False.

        decided: returns, after each round, whether there is no doubt about the fastest of the leaders; that is the end,
        too.

        measure(setting, number): the rate of the setting's run with this number, from 0; None if it failed. In every
        round each setting that is left runs once, and every other round goes backwards, so that a machine that becomes
        slower, or faster, favours none of them.
        """
        self.leaders = list(self.settings)
        for rung in rungs(len(self.settings)):
            self.leaders = self._best(rung.settings)
            for number in range(rung.repeats):
                for setting in self.leaders[:: -1 if number % 2 else 1]:
                    if self._failed(setting):
                        continue
                    if not may_go_on():
                        return
                    self._take(setting, measure(setting, len(self.results.get(setting, []))))
                if decided(self.leaders):
                    self.complete = True
                    return
            self.leaders = [setting for setting in self.leaders if not self._failed(setting)]
        self.complete = True

    def _take(self, setting: T, rate: float | None) -> None:
        if rate is None:
            self.results[setting] = []
        else:
            self.results.setdefault(setting, []).append(rate)

    def _failed(self, setting: T) -> bool:
        return setting in self.results and not self.results[setting]

    def _best(self, count: int) -> list[T]:
        """The fastest `count` of the leaders, in the order in which they were given."""
        rate = {setting: median(self.results.get(setting) or [0.0]) for setting in self.leaders}
        best = sorted(self.leaders, key=rate.__getitem__, reverse=True)[:count]
        return [setting for setting in self.leaders if setting in best]
