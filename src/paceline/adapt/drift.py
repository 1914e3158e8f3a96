"""Decides when the pace of a group has changed for good.

It knows neither a clock nor a group, so the same calls give the same verdicts on all ranks. The evidence of a call is
the logarithm of its time over the usual time. Evidence is summed up for as long as it points one way (E. S. Page,
"Continuous Inspection Schemes", Biometrika 41, 1954). Nothing is measured before calls have lost as much time as the
measurement takes.
"""

from __future__ import annotations

import math
from statistics import median

from paceline.calibration import adapt as fitted


class Drift:
    """The pace of one group, as its calls show it.

    prices: the seconds that a measurement of the links takes; the first price is that of the cheapest measurement, the
    next one that of a wider one, which is due if the first explained nothing, and so on.

    At first the predicted time counts as usual. If a measurement finds the links as they were, something else, mostly
    busy cores, slows the calls down; then the times of the next calls count as usual, and the next measurement has to
    be worth twice as much.
    """

    def __init__(self, *prices: float) -> None:
        self._prices = prices
        self.step = 0
        """The index of the measurement that is due next, in `prices`."""
        self._patience = 1
        self._usual: float | None = 1.0
        self._settling: list[float] = []
        self._slower, self._faster = _Run(), _Run()

    def changed(self, expected: float, took: float) -> float | None:
        """Take in a call that should have taken `expected` seconds and took `took` seconds.

        Returns how many times as long as usual calls take if the network should be measured now, else None.
        """
        ratio = took / expected
        if self._usual is None:
            self._settling.append(ratio)
            if len(self._settling) == fitted.SETTLING_CALLS:
                self._usual = median(self._settling)
            return None
        step = math.log(max(ratio, 1e-9) / self._usual)
        for run, evidence in ((self._slower, step), (self._faster, -step)):
            run.add(evidence, expected, took)
            lost = abs(run.took - self._usual * run.expected)
            if run.evidence >= fitted.PROOF and lost >= self._patience * self._prices[self.step]:
                return run.took / (self._usual * run.expected)
        if self._slower.evidence == self._faster.evidence == 0:
            self.step = 0
        return None

    def measured(self, others: bool) -> None:
        """Take in that the links were measured. others: whether they were not what they had been taken for."""
        if not others and self.step + 1 < len(self._prices):
            self.step += 1
            return
        self.step = 0
        self._patience = 1 if others else min(2 * self._patience, fitted.MOST_PATIENCE)
        self._usual, self._settling = 1.0 if others else None, []
        self._slower, self._faster = _Run(), _Run()


class _Run:
    """The evidence of the calls since it points one way, and their expected and real seconds."""

    def __init__(self) -> None:
        self.evidence = self.expected = self.took = 0.0

    def add(self, evidence: float, expected: float, took: float) -> None:
        self.evidence += min(evidence, fitted.MOST_EVIDENCE) - fitted.NOISE
        self.expected += expected
        self.took += took
        if self.evidence <= 0:
            self.evidence = self.expected = self.took = 0.0
