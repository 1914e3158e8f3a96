"""The rate at which bytes arrive from a peer, whether or not the rank that waits for them gets a core in time."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from paceline.group.group import Group

_LEAST_PART = 0.5
"""The fraction of the bytes that the best part of a stream must have at least."""
_BURST = 0.1
"""The fraction of the bytes whose pace shows whether a stream comes in bursts."""


class Arrivals:
    """The bytes that have arrived from `peer`, moment by moment. `counted`: by the kernel, which counts what a TCP
    connection has taken in before any rank reads it."""

    def __init__(self, group: Group, peer: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._count: Callable[[int], int] = group.native.received
        self._peer, self._clock = peer, clock
        self._read = 0
        self._before: list[float] = []
        self._after: list[float] = []
        self._bytes: list[int] = []
        self.counted = self._count(peer) > 0
        self.begun = clock()

    def add(self, size: int) -> None:
        """A message of `size` bytes has just been read."""
        self._read += size
        self._before.append(self._clock())
        self._bytes.append(self._count(self._peer) if self.counted else self._read)
        self._after.append(self._clock())

    @property
    def seconds(self) -> float:
        """The seconds until the last message was read."""
        return self._after[-1] - self.begun

    def after(self, part: float) -> int:
        """Return the number of the last message within this fraction of the time."""
        times = np.array(self._after) - self.begun
        return int(np.searchsorted(times, part * times[-1], side="right")) - 1

    def mean(self, settled: int) -> float:
        """Return the bytes per second from the message with number `settled` to the last one.

        For streams that share a link, whose rates add up to the link's over the same time only.
        """
        return self._fastest(settled, 1.0)

    def burst(self, settled: int) -> float:
        """Return how many times as fast as `mean` the fastest tenth of the bytes came; nan where nothing came."""
        mean = self.mean(settled)
        return self._fastest(settled, _BURST) / mean if mean > 0 else np.nan

    def rate(self, settled: int) -> float:
        """Return the bytes per second after the first `settled` messages, of a stream that has its links for itself.

        Whatever two moments one takes, the bytes that the kernel counted between them did not come faster than the link
        carries. A sender or a receiver that waits for a core only makes them come more slowly, so the fastest large
        part of the stream counts. Where nobody counts, bytes count when they are read, and all of them do.
        """
        return self._fastest(settled, _LEAST_PART if self.counted else 1.0)

    def _fastest(self, settled: int, part: float) -> float:
        """The rate of the fastest part of the stream that has at least this fraction of its bytes."""
        settled = max(0, min(settled, len(self._bytes) - 2))
        come = np.array(self._bytes[settled:], np.float64)
        carried = np.subtract.outer(come, come)
        # This rank may lose its core between a look at the clock and the count, which must not make a link look faster.
        passed = np.subtract.outer(self._after[settled:], self._before[settled:])
        large = (carried > 0) & (carried >= part * (come[-1] - come[0]))
        return float((carried[large] / np.maximum(passed[large], 1e-9)).max()) if large.any() else 0.0
