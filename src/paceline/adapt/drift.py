"""When a group's pace has changed for good. No clock, no group: the same calls give the same verdicts on all ranks.

A call's evidence is the logarithm of how many times as long as usual it took, summed up for as long as it points one
way: E. S. Page, "Continuous Inspection Schemes", Biometrika 41, 1954. And nothing is measured before calls have lost as
much time as measuring takes.
"""

from __future__ import annotations

import math
from statistics import median

from paceline.calibration import adapt as fitted


class Drift:
    """Of a group whose links can be measured in `prices[0]` seconds, and then, should that explain nothing, more widely
    in `prices[1]`, and so on.

    What is usual is what was predicted, until links turn out to be as they were: then it was something else, busy cores
    mostly, and what the next calls take is usual from then on. Each time that happens, the next measurement has to be
    worth twice as much.
    """

    def __init__(self, *prices: float) -> None:
        self._prices = prices
        self.step = 0
        """Which of them is the next."""
        self._patience = 1
        self._usual: float | None = 1.0
        self._settling: list[float] = []
        self._slower, self._faster = _Run(), _Run()

    def changed(self, expected: float, took: float) -> float | None:
        """After a call that should have taken `expected` seconds: how many times as long as usual calls take, if the
        network should be measured."""
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
        """Links have been measured. others: they were not what they had been taken for."""
        if not others and self.step + 1 < len(self._prices):
            self.step += 1
            return
        self.step = 0
        self._patience = 1 if others else min(2 * self._patience, fitted.MOST_PATIENCE)
        self._usual, self._settling = 1.0 if others else None, []
        self._slower, self._faster = _Run(), _Run()


class _Run:
    """Calls since there is evidence, and their seconds."""

    def __init__(self) -> None:
        self.evidence = self.expected = self.took = 0.0

    def add(self, evidence: float, expected: float, took: float) -> None:
        self.evidence += min(evidence, fitted.MOST_EVIDENCE) - fitted.NOISE
        self.expected += expected
        self.took += took
        if self.evidence <= 0:
            self.evidence = self.expected = self.took = 0.0
