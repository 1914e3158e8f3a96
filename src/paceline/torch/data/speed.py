"""The speed at which a rank computes: samples per second between two batches, without its waits for other ranks."""

from __future__ import annotations

import time
from statistics import median

from paceline.process.current import running


class Speed:
    """The speed of this rank over the last batches."""

    def __init__(self) -> None:
        self._recent: list[float] = []
        self._samples = 0
        self._begun = self._exposed_before = 0

    def handed(self, samples: int) -> None:
        """The rank gets a batch of so many samples now."""
        self._samples, self._begun, self._exposed_before = samples, time.monotonic_ns(), _exposed_ns()

    def asked(self) -> None:
        """The rank asks for the next batch, so it is done with the one before."""
        if self._samples:
            computed = time.monotonic_ns() - self._begun - (_exposed_ns() - self._exposed_before)
            self._recent.append(self._samples / max(computed, 1) * 1e9)
        self._samples = 0

    def take(self) -> float:
        """Return the median speed since the last call in samples per second, 0 where there was no batch."""
        found = median(self._recent) if self._recent else 0.0
        self._recent.clear()
        return found


def agreed(speeds: list[float], before: tuple[float, ...]) -> tuple[float, ...]:
    """Return the weights that follow from the ranks' speeds: half way from those before, whose sum is 1 like theirs.

    Where some rank has no speed yet the weights stay.
    """
    if not all(speed > 0 for speed in speeds):
        return before
    whole, old = sum(speeds), sum(before)
    return tuple((speed / whole + weight / old) / 2 for speed, weight in zip(speeds, before, strict=True))


def _exposed_ns() -> int:
    process = running()
    return process.exposed_ns() if process is not None else 0
