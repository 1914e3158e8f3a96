"""When a group's pace has changed for good. No clock, no group: the same ratios give the same verdicts on all ranks."""

from __future__ import annotations

CHANGED = 1.25
"""By this factor, or its inverse, a pace must differ from the usual to be suspicious: noise stays below, the loss of
a link's third does not."""
PATIENCE, MOST_PATIENCE = 2, 128
"""Suspicious windows in a row after which the change is taken to be for good; twice as many each time that links turn
out to be as they were: then it was something else, busy cores mostly, and measuring makes that no better."""


class Pace:
    """Ratios of the time that collectives took to the time that was predicted, window after window.

    The usual ratio is 1 until something was measured, and then the first one after it: what the prediction leaves out
    is no reason to measure again.
    """

    def __init__(self) -> None:
        self._usual: float | None = 1.0
        self._suspicious = 0
        self._patience = PATIENCE

    def changed(self, ratio: float) -> bool:
        """Whether the network should be measured, after a window with this ratio."""
        if self._usual is None:
            self._usual = ratio
        relative = ratio / self._usual
        self._suspicious = 0 if 1 / CHANGED < relative < CHANGED else self._suspicious + 1
        return self._suspicious >= self._patience

    def measured(self, others: bool) -> None:
        """Links have been measured. others: they were not what they had been taken for."""
        self._patience = PATIENCE if others else min(2 * self._patience, MOST_PATIENCE)
        self._usual = None
        self._suspicious = 0
