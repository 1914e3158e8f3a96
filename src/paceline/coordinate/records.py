"""What a coordinator has done: sums, and the last requests one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Record(NamedTuple):
    """A request that is over. Times are nanoseconds of CLOCK_MONOTONIC, 0 for what did not happen."""

    name: str
    kind: str
    """all_reduce, broadcast, ..."""
    nbytes: int
    """This rank's."""
    batch: int
    """Requests with the same number were carried out together."""
    submitted_ns: int
    negotiated_ns: int
    """Issued: it was known to be ready on all ranks, and its turn came."""
    packed_ns: int
    reduced_ns: int
    done_ns: int
    last: bool
    """Whether this rank was the last to hand it in, as far as it knows."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums since the coordinator was made; times in nanoseconds."""

    cycles: int
    """Wake-ups of a polling policy."""
    synchronisations: int
    messages: int
    """Sent by the policy."""
    cache_hits: int
    cache_misses: int
    issues: int
    issued: int
    """Requests in `issues`."""
    deviations: int
    """Times that policy `graph` fell back to negotiation."""
    batches: int
    fused_bytes: int
    """Packed with others, to be reduced as one."""
    background_cpu_ns: int
    """CPU time of coordination: of the engine's thread, and of callers while they synchronise; not of moving data."""
    handing_in_ns: int
    """Of callers that hand in requests."""
    spin_ns: int
    """Waited for the other ranks in synchronisations that keep or offer the core."""
    oversleep_ns: int
    """Past the times that the policy had asked for, in `sleeps` sleeps."""
    sleeps: int
    negotiation_ns: int
    """From when this rank was the last to hand in a request until it was issued, in `negotiations` requests."""
    longest_negotiation_ns: int
    negotiations: int
