"""CPU work of a fixed amount: small matrix products, which stay in the first caches."""

from __future__ import annotations

import time
from itertools import repeat

import numpy as np

_EDGE = 96
"""Rows and columns of the matrices."""
_CALIBRATION_SECONDS = 0.2
"""Seconds of work from which the time of a unit is measured."""


class ComputeLoad:
    """Does equal units of work, some tens of microseconds each, without the GIL."""

    def __init__(self) -> None:
        self._a, self._b, self._c = (np.ones((_EDGE, _EDGE), np.float32) for _ in range(3))

    def work(self, units: int) -> None:
        """Do this number of units of work."""
        a, b, c = self._a, self._b, self._c
        for _ in repeat(None, units):
            np.matmul(a, b, out=c)

    def seconds_per_unit(self) -> float:
        """Measure and return the seconds that a unit takes here and now."""
        self.work(100)
        done, begin = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < _CALIBRATION_SECONDS:
            self.work(100)
            done += 100
        return elapsed / done
