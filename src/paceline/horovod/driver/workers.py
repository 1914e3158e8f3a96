"""The live workers of an elastic job as its rounds know them, and which of them have a slot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Worker:
    """A live worker. started: when, in seconds. round: the number of its round, 0 before its first."""

    number: int
    host: str
    started: float
    round: int = 0
    joined: int = 0
    """The number of its first round, 0 before that."""
    rank: int = 0
    asks: bool = False
    synced: bool = False
    """True if the worker has the state of the job."""
    behind: bool = False
    """True if the worker's state may be older than that of the others."""

    @property
    def seniority(self) -> tuple[bool, int, int, int]:
        """The sort key of a round's ranks: rank 0, which gives its state to the others, has the state itself."""
        return (not self.synced, self.joined or 1 << 62, self.rank, self.number)


def without_slot(workers: Iterable[Worker], hosts: Mapping[str, int], most: int | None) -> list[Worker]:
    """Return the workers beyond the slots of their hosts, or beyond the `most` that the job may have (None: no limit).

    Of those that compete for a slot the senior ones have it.
    """
    taken = dict.fromkeys(hosts, 0)
    without = []
    for worker in sorted(workers, key=lambda each: each.seniority):
        full = most is not None and sum(taken.values()) >= most
        if full or taken.get(worker.host, 0) >= hosts.get(worker.host, 0):
            without.append(worker)
        else:
            taken[worker.host] += 1
    return without
