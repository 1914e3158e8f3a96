"""What is measured between the machines of a job."""

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

    to[r, i]: the place among `machines` of the one that machine `machines[i]` sends to in round r. rate[r, i]: bytes
    per second that arrived there.
    """

    machines: tuple[int, ...]
    to: Integers
    rate: Matrix

    def carried(self, machines: Collection[int]) -> tuple[float, float]:
        """The most bytes per second, in any round, that these sent to others together, and received from others."""
        inside = np.isin(self.machines, list(machines))
        out = np.where(inside & ~inside[self.to], self.rate, 0).sum(axis=1)
        into = np.where(~inside & inside[self.to], self.rate, 0).sum(axis=1)
        return float(out.max(initial=0.0)), float(into.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class Measured:
    """Machines are numbered in the order of their first ranks; nan where nothing was measured.

    rate[i, j]: bytes per second from machine i to machine j, with no other pair on either's link. latency[i, j]:
    seconds that a small message takes between ranks of the two. local_rate[i], local_latency[i]: the same between
    ranks of machine i. loads: what they get when all send at once, first all machines, then parts of them. waited[i]:
    seconds, of each between machines, that the first rank of machine i waited for a core; empty where nobody looked.
    spread: by what factor rates of the same pair usually differ.
    """

    rate: Matrix
    latency: Matrix
    local_rate: Matrix
    local_latency: Matrix
    loads: tuple[Load, ...] = ()
    waited: Matrix = field(default_factory=lambda: np.empty(0))
    spread: float = 1.0
