"""The ranks that train each partition of each replica, and the speeds of the paths between neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from paceline.plan.codecs import Codec
from paceline.topology.discover import Placement
from paceline.torch.partitioned.chain import channel
from paceline.torch.partitioned.cut import Channel
from paceline.torch.partitioned.errors import HybridError

SideBySide = Literal["partitions", "replicas"]


@dataclass(frozen=True)
class Layout:
    """The job's ranks as partitions × replicas.

    ranks: of the whole job, machine by machine. side_by_side: what follows each other in them, and so shares machines
    where it can: the partitions of a replica, between which activations cross in every microbatch, or the replicas of
    a partition, between which gradients cross once a step.
    """

    partitions: int
    replicas: int
    ranks: tuple[int, ...]
    side_by_side: SideBySide = "partitions"

    def rank(self, replica: int, partition: int) -> int:
        """The rank that trains this partition of this replica."""
        return self.ranks[self._index(replica, partition)]

    def place(self, rank: int) -> tuple[int, int]:
        """The replica and partition of a rank."""
        index = self.ranks.index(rank)
        if self.side_by_side == "partitions":
            return divmod(index, self.partitions)
        partition, replica = divmod(index, self.replicas)
        return replica, partition

    def channels(self, stages: Sequence[int], placement: Placement, codec: Codec | None = None) -> list[Channel]:
        """The slowest path among the replicas between each stage and the next, over which all of them send at once.

        stages: the partition of each. codec: how float32, as which all that crosses is taken, is encoded between
        machines.
        """
        places = {rank: place for place, rank in enumerate(placement.ranks)}
        machine_of = {place: node.name for node, those in placement.topology.machines() for place in those}
        found = []
        for before, after in pairwise(stages):
            pairs = [
                (places[self.rank(replica, before)], places[self.rank(replica, after)])
                for replica in range(self.replicas)
            ]
            path = channel(placement.topology, pairs)
            far = any(machine_of[one] != machine_of[other] for one, other in pairs)
            if codec is not None and far:
                path = Channel(path.per_byte / codec.ratio + codec.seconds, path.latency)
            found.append(path)
        return found

    def _index(self, replica: int, partition: int) -> int:
        if self.side_by_side == "partitions":
            return replica * self.partitions + partition
        return partition * self.replicas + replica


def layouts(partitions: int, replicas: int, placement: Placement) -> list[Layout]:
    """The layouts of a job on these ranks: two if it makes a difference what is side by side, or one.

    Raises HybridError unless partitions × replicas is the number of its ranks.
    """
    world = len(placement.ranks)
    if partitions < 1 or replicas < 1 or partitions * replicas != world:
        raise HybridError(
            f"partitions × replicas must be the number of ranks: found {partitions} × {replicas} with {world} ranks"
        )
    machines = sum(1 for _ in placement.topology.machines())
    alike = partitions == 1 or replicas == 1 or machines == 1
    sides: tuple[SideBySide, ...] = ("partitions",) if alike else ("partitions", "replicas")
    return [Layout(partitions, replicas, placement.ranks, side) for side in sides]
