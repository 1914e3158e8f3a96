"""A process that computes and does not communicate, with which others share the CPUs."""

from __future__ import annotations

import os
import time
from itertools import repeat

import numpy as np

from .wire import Message

_FLOATS = 4096
"""Elements of each array; they fit in the first-level cache."""
_UNITS_PER_LOOK = 20
"""Additions between two looks at the clock."""


class Busy:
    """Adds small arrays, which stay in the first-level cache, for as long as it is ordered to."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.about = "NumPy additions"
        self._a, self._b, self._c = (np.ones(_FLOATS, np.float32) for _ in range(3))

    def do_work(self, seconds: float) -> Message:
        """Work for `seconds` and return the additions per second."""
        a, b, c = self._a, self._b, self._c
        done = 0
        begin = now = time.perf_counter()
        while now - begin < seconds:
            for _ in repeat(None, _UNITS_PER_LOOK):
                np.add(a, b, out=c)
            done += _UNITS_PER_LOOK
            now = time.perf_counter()
        return {"rate": done / (now - begin)}

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
