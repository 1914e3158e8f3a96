"""The number of a batch's samples that each rank gets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


def split(total: int, weights: Sequence[float]) -> list[int]:
    """Divide `total` samples by positive weights into whole numbers, by the method of largest remainders.

    Each is less than 1 from its exact share, unless ranks would get nothing although there are enough samples: they get
    one of those that have most.
    """
    whole = sum(weights)
    exact = [total * weight / whole for weight in weights]
    counts = [int(share) for share in exact]
    rest = sorted(range(len(counts)), key=lambda rank: (counts[rank] - exact[rank], rank))
    for rank in rest[: total - sum(counts)]:
        counts[rank] += 1
    while total >= len(counts) and 0 in counts:
        counts[counts.index(max(counts))] -= 1
        counts[counts.index(0)] += 1
    return counts


class Shares:
    """The weights of the ranks, which may change from a certain batch on. Changes come in order."""

    def __init__(self, weights: Sequence[float]) -> None:
        self._starts = [0]
        self._weights = [tuple(weights)]

    def change(self, start: int, weights: Sequence[float]) -> None:
        """From batch `start` on these hold."""
        self._weights.append(tuple(weights))
        self._starts.append(start)

    def at(self, batch: int) -> tuple[float, ...]:
        """Return the weights of a batch, by rank."""
        return self._weights[bisect_right(self._starts, batch) - 1]

    def restart(self) -> None:
        """Batches are counted from 0 again, with the weights that were the last."""
        self._starts, self._weights = [0], self._weights[-1:]


@dataclass(frozen=True)
class Cut:
    """One rank's part of its machine's batch: samples `begin` to `end`.

    samples: how many of them count, 0 where the part is a sample of another rank's. total: the samples of the batch of
    all ranks, None where only the ranks together know.
    """

    begin: int
    end: int
    samples: int
    total: int | None


def cuts(ranks: Sequence[int], counts: Sequence[int], total: int | None) -> dict[int, Cut]:
    """Return the parts of a machine's ranks, one behind the other.

    counts: the samples of each of these ranks. A rank without any gets one that does not count, so that it can take
    part in the step: of the machine's `spare` samples, or the one sample that a machine without any reads.
    """
    found, begin, extra = {}, 0, sum(counts)
    for rank, count in zip(ranks, counts, strict=True):
        found[rank] = Cut(begin, begin + count, count, total) if count else Cut(extra, extra + 1, 0, total)
        begin, extra = begin + count, extra + (not count)
    return found


def spare(counts: Sequence[int]) -> int:
    """Return how many samples a machine needs beside those that it reads, so that each of its ranks has its own."""
    return counts.count(0) - (sum(counts) == 0)
