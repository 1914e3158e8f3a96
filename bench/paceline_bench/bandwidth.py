"""The two bandwidths of nccl-tests (its doc/PERFORMANCE.md), in 10^9 bytes/s."""

from __future__ import annotations

from collections.abc import Callable


def algorithm_bandwidth(size: int, seconds: float) -> float:
    """Return S/t in 10^9 bytes/s, where S is the bytes of the larger of a rank's two buffers; 0 for a time of 0."""
    return size / seconds / 1e9 if seconds > 0 else 0.0


def bus_factor(collective: str, ranks: int) -> float:
    """Return the factor from algbw to busbw, which can be compared with the hardware's speed for any number of
    ranks.
    """
    return BUS_FACTORS[collective](ranks)


BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "all_to_all": lambda n: (n - 1) / n,
    "reduce": lambda n: 1.0,
    "barrier": lambda n: 0.0,
    "sendrecv": lambda n: 1.0,
}
