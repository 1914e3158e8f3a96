"""The results of measurements between the machines of a job."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """Rounds in which each of these machines sends to one other and receives from one other, all at once.

    to: array of (rounds, machines) int64. In round r, machine `machines[i]` sends to machine `machines[to[r, i]]`.
    rate: array of (rounds, machines) float64, the bytes per second that arrived there. bursts: array of (rounds,
    machines) float64, how many times as fast the fastest tenth of them came, nan where that is not known; may be empty.
    """

    machines: tuple[int, ...]
    to: Integers
    rate: Matrix
    bursts: Matrix = field(default_factory=lambda: np.empty((0, 0)))

    def carried(self, machines: Collection[int]) -> tuple[float, float]:
        """Return the most bytes per second that these machines together sent to others, and received from others.

        Each is the maximum over all rounds.
        """
        inside = np.isin(self.machines, list(machines))
        out = np.where(inside & ~inside[self.to], self.rate, 0).sum(axis=1)
        into = np.where(~inside & inside[self.to], self.rate, 0).sum(axis=1)
        return float(out.max(initial=0.0)), float(into.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements. Machines are numbered in the order of their first ranks; nan is where nothing was measured.

    rate: array of (machines, machines) float64, the bytes per second from machine i to machine j. latency: array of
    (machines, machines) float64, the seconds that a small message takes between ranks of machines i and j. local_rate,
    local_latency: arrays of (machines,) float64, the same between ranks of a machine. loads: the rates when all send at
    once, first all machines, then parts of them. waited: array of (machines,) float64, the fraction of the time for
    which the first rank of each machine waited for a core; empty where that was not measured. bursts: array of
    (machines,) float64, the median of `Load.bursts` over the streams that a machine sent and received; empty where that
    was not measured. spread: the factor by which rates of the same pair usually differ.
    """

    rate: Matrix
    latency: Matrix
    local_rate: Matrix
    local_latency: Matrix
    loads: tuple[Load, ...] = ()
    waited: Matrix = field(default_factory=lambda: np.empty(0))
    bursts: Matrix = field(default_factory=lambda: np.empty(0))
    spread: float = 1.0
