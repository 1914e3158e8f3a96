"""Which rank trains which partition of which replica, and how fast the paths between neighbours are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from paceline.topology.discover import Placement
from paceline.torch.partitioned.chain import channel
from paceline.torch.partitioned.cut import Channel
from paceline.torch.partitioned.errors import HybridError


@dataclass(frozen=True)
class Layout:
    """Ranks in replicas of `partitions` ranks each. The ranks of a replica follow each other, so that they share a
    machine where ranks are numbered machine by machine: activations cross in every microbatch, gradients once a step.
    """

    partitions: int
    replicas: int

    def rank(self, replica: int, partition: int) -> int:
        """The rank that trains this partition of this replica."""
        return replica * self.partitions + partition

    def place(self, rank: int) -> tuple[int, int]:
        """The replica and partition of a rank."""
        return divmod(rank, self.partitions)

    def channels(self, stages: Sequence[int], placement: Placement) -> list[Channel]:
        """The slowest path among the replicas between each stage and the next. stages: the partition of each."""
        places = {rank: place for place, rank in enumerate(placement.ranks)}
        return [
            max(
                (
                    channel(
                        placement.topology, *(places[self.rank(replica, partition)] for partition in (before, after))
                    )
                    for replica in range(self.replicas)
                ),
                key=lambda path: path.per_byte,
            )
            for before, after in pairwise(stages)
        ]


def layout(partitions: int, replicas: int, world: int) -> Layout:
    """The layout of a job. Raises HybridError unless partitions × replicas is the number of its ranks."""
    if partitions < 1 or replicas < 1 or partitions * replicas != world:
        raise HybridError(
            f"partitions × replicas must be the number of ranks: found {partitions} × {replicas} with {world} ranks"
        )
    return Layout(partitions, replicas)
