"""nccl-tests' two bandwidths (its doc/PERFORMANCE.md), in 10^9 bytes per second."""

from __future__ import annotations

from collections.abc import Callable


def algorithm_bandwidth(size: int, seconds: float) -> float:
    """S/t, where S is the larger of a rank's two buffers: the total for gather and scatter."""
    return size / seconds / 1e9 if seconds > 0 else 0.0


def bus_factor(collective: str, ranks: int) -> float:
    """What turns algbw into busbw, which is comparable with the speed of the hardware for any number of ranks."""
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
