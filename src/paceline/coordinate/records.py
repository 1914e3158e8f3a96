"""The records of a coordinator: sums over all requests, and the last requests one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Record(NamedTuple):
    """A request that is over. Times are nanoseconds of CLOCK_MONOTONIC; 0 means that the phase did not happen."""

    name: str
    kind: str
    """The collective: "all_reduce", "broadcast", and so on."""
    nbytes: int
    """The size of this rank's buffer in bytes."""
    batch: int
    """Requests with the same number were carried out together."""
    submitted_ns: int
    negotiated_ns: int
    """The time at which it was issued: it was known to be ready on all ranks, and its turn had come."""
    packed_ns: int
    reduced_ns: int
    done_ns: int
    last: bool | None
    """True if this rank was the last to submit it, None if it does not hear of all ranks. See `observe.stragglers`."""
    number: int
    """The number of the request; the requests of a rank are counted from 1 as they end."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums since the coordinator was made. Times are nanoseconds."""

    cycles: int
    """The number of times that a polling policy woke up."""
    synchronisations: int
    messages: int
    """Messages that the policy sent."""
    cache_hits: int
    cache_misses: int
    issues: int
    issued: int
    """Requests that the `issues` contained."""
    deviations: int
    """The number of times that policy `graph` fell back to negotiation."""
    batches: int
    fused_bytes: int
    """Bytes that were packed with others, to be reduced together."""
    background_cpu_ns: int
    """The CPU time of coordination: that of the engine's thread and of callers while they synchronise, without the time
    of moving data."""
    submitting_ns: int
    """The time that callers spent in submitting requests."""
    spin_ns: int
    """The time of waits for the other ranks in synchronisations that spin or yield."""
    oversleep_ns: int
    """The time by which `sleeps` sleeps were longer than the policy had asked for."""
    sleeps: int
    negotiation_ns: int
    """The time from the submission of a request until its issue, summed over the `negotiations` requests that this rank
    was the last to submit."""
    longest_negotiation_ns: int
    negotiations: int
