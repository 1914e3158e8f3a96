"""When a group's pace has changed for good. No clock, no group: the same ratios give the same verdicts on all ranks."""

from __future__ import annotations

CHANGED = 1.25
"""By this factor, or its inverse, a pace must differ from the usual to be suspicious: noise stays below, the loss of
a link's third does not."""
PATIENCE = 2
"""Suspicious windows in a row after which the change is taken to be for good."""


class Pace:
    """Ratios of the time that collectives took to the time that was predicted, window after window.

    The usual ratio is 1 until something was measured, and then the first one after it: what the prediction leaves out
    is no reason to measure again.
    """

    def __init__(self) -> None:
        self._usual: float | None = 1.0
        self._suspicious = 0

    def changed(self, ratio: float) -> bool:
        """Whether the network should be measured, after a window with this ratio."""
        if self._usual is None:
            self._usual = ratio
        relative = ratio / self._usual
        self._suspicious = 0 if 1 / CHANGED < relative < CHANGED else self._suspicious + 1
        return self._suspicious >= PATIENCE

    def measured(self) -> None:
        """Plans have been made anew from a measurement."""
        self._usual = None
        self._suspicious = 0
