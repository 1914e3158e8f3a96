"""The measured figures of a backend, without torch: the command that prints them does not wait for that import."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Figure:
    """One value for each measured epoch, their median, and half the distance between their quartiles."""

    median: float
    spread: float
    epochs: tuple[float, ...]


@dataclass(frozen=True)
class Figures:
    """The figures of one backend. Communication is in ms per step, or in seconds for all epochs, averaged over the
    ranks.

    added: how much longer a step takes than the same step without all-reduces, in the same epoch. total: the time in
    which at least one all-reduce was issued and not complete. transfer: the same, counted from the moment when the last
    rank had issued the all-reduce; before that, ranks wait for each other, which no backend can avoid. exposed: how
    long backward stood still at its end, from the issue of the last all-reduce until all were complete.
    """

    images_per_second: Figure
    step_ms: Figure
    added_ms: Figure
    total_ms: Figure
    transfer_ms: Figure
    exposed_ms: Figure
    total_s: float
    exposed_s: float
    buckets: int


def figure(epochs: Sequence[float]) -> Figure:
    """Summarise one value per epoch."""
    low, median, high = np.quantile(epochs, [0.25, 0.5, 0.75]).tolist()
    return Figure(median, (high - low) / 2, tuple(epochs))
