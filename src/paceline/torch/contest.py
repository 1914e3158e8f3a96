"""A contest between two ways for collectives of a size: both are timed once, and all ranks make the same choice."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paceline.calibration.torch import CONTEST_LEAD, CONTEST_ROUNDS, CONTEST_SECONDS, CONTEST_SIZES
from paceline.formats.sizes import show_seconds

Timed = Callable[[int], float]
"""Carries out a collective of so many bytes, and returns its seconds."""

_BETWEEN = [math.isqrt(smaller * larger) for smaller, larger in pairwise(CONTEST_SIZES)]


@dataclass(frozen=True)
class Verdict:
    """The collectives that the challenger gets, and the reason. wins: by size, as in CONTEST_SIZES."""

    wins: tuple[bool, ...]
    reason: str

    def for_challenger(self, size: int) -> bool:
        """Return whether the challenger gets a collective of so many bytes: as it did at the size of nearest ratio."""
        return self.wins[bisect_left(_BETWEEN, size)]


def everything(reason: str) -> Verdict:
    """The challenger gets all."""
    return Verdict((True,) * len(CONTEST_SIZES), reason)


def nothing(reason: str) -> Verdict:
    """The challenger gets none."""
    return Verdict((False,) * len(CONTEST_SIZES), reason)


def contest(challenger: Timed, holder: Timed, slowest: Callable[[list[float]], Sequence[float]]) -> Verdict:
    """Time both, in rounds of which the first does not count, and let the challenger have what it does clearly faster.

    A size counts with the time of its slowest rank, in the fastest round. slowest: the longest of all ranks for each of
    these times. All three are collective; what they raise is raised.
    """

    def again() -> Sequence[float]:
        return slowest([way(size) for way in (challenger, holder) for size in CONTEST_SIZES])

    again()
    best = again()
    spent = sum(best)
    for _ in range(1, CONTEST_ROUNDS):
        if spent >= CONTEST_SECONDS:
            break
        times = again()
        spent += sum(times)
        best = [min(pair) for pair in zip(best, times, strict=True)]
    half = len(CONTEST_SIZES)
    times_of_both = list(zip(best[:half], best[half:], strict=True))
    wins = tuple(ours * CONTEST_LEAD < theirs for ours, theirs in times_of_both)
    said = (
        f"{size >> 10} KiB {show_seconds(ours)} against {show_seconds(theirs)}"
        for size, (ours, theirs) in zip(CONTEST_SIZES, times_of_both, strict=True)
    )
    return Verdict(wins, ", ".join(said))
