"""Ranks that share fewer CPUs than there are ranks, and how to time what one of them does."""

from __future__ import annotations

import time
from collections.abc import Callable

from paceline.plan.network import Network
from paceline.topology.discover import Placement

Clock = Callable[[], float]
"""Seconds since some moment."""


def crowds(placement: Placement) -> list[tuple[frozenset[int], int]]:
    """The ranks that share CPUs, and how many these are, for each kernel that has too few of them."""
    found = Network(placement.topology).crowds
    return [(frozenset(placement.ranks[place] for place in places.tolist()), cpus) for places, cpus in found]


def clock_of(placement: Placement, rank: int) -> Clock:
    """Return the clock by which a rank times work that all ranks do at the same time.

    It is the CPU time of the thread where ranks wait for CPUs: how long they do differs from time to time.
    """
    return time.thread_time if any(rank in ranks for ranks, _ in crowds(placement)) else time.perf_counter
