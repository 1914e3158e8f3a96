"""A shape: how a job's ranks share a model and its batch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from paceline.topology.discover import Placement
from paceline.torch.partitioned.codecs import AS_IT_IS, Codecs
from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.layout import Layout, layouts
from paceline.torch.partitioned.schedule import Schedule, find_schedule

_MOST_MICROBATCHES = 64
"""Microbatches that are considered at most."""


@dataclass(frozen=True)
class Shape:
    """Partitions × replicas × microbatches, the schedule, and what is encoded. batch: the samples of a replica's."""

    layout: Layout
    schedule: Schedule
    microbatches: int
    batch: int
    codecs: Codecs = AS_IT_IS

    @property
    def samples(self) -> int:
        """The samples of the largest microbatch."""
        return -(-self.batch // self.microbatches)

    def __str__(self) -> str:
        parts = f"{self.layout.partitions} × {self.layout.replicas}"
        return f"{parts} with {self.microbatches} microbatch{'es' * (self.microbatches > 1)}"


@dataclass(frozen=True)
class Wanted:
    """The wanted shape; None where the best is to be found. batch: samples of a replica, or if `together` of all."""

    partitions: int | None
    replicas: int | None
    microbatches: int | None
    schedule: str
    batch: int
    together: bool
    codecs: Codecs = AS_IT_IS

    def shapes(self, placement: Placement) -> list[Shape]:
        """Return the shapes that are possible on these ranks.

        Raises HybridError if there is none, and says why if the partitions are given.
        """
        world = len(placement.ranks)
        if self.partitions is not None:
            return self._microbatched(self.partitions, self.replicas or max(1, world // self.partitions), placement)
        find_schedule(self.schedule, 1)  # an unknown name is no matter of shapes
        found: list[Shape] = []
        for partitions in range(1, world + 1):
            with suppress(HybridError):
                found += self._microbatched(partitions, self.replicas or world // partitions, placement)
        if not found:
            raise HybridError(f"no shape divides a batch of {self.batch} samples among {world} ranks as asked")
        return found

    def _microbatched(self, partitions: int, replicas: int, placement: Placement) -> list[Shape]:
        places = layouts(partitions, replicas, placement)
        batch = -(-self.batch // replicas) if self.together else self.batch
        schedule = find_schedule(self.schedule, partitions)
        least = self.microbatches if self.microbatches is not None else schedule.stages
        if not 1 <= least <= batch:
            raise HybridError(f"a batch of {batch} samples can't be divided into {least} microbatches")
        schedule.check(least)
        numbers = [least]
        while self.microbatches is None and 2 * numbers[-1] <= min(batch, _MOST_MICROBATCHES):
            numbers.append(2 * numbers[-1])
        return [Shape(each, schedule, number, batch, self.codecs) for each in places for number in numbers]
