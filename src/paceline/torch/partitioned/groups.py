"""The process groups of a partitioned model: a replica's pipeline, and who has the same parameters."""

from __future__ import annotations

from collections.abc import Iterable

import torch.distributed as dist

from paceline.torch.partitioned.layout import Layout


class Groups:
    """Groups of this rank. Making them is a collective.

    shared: the sets of partitions that have parameters in common, each with several members.
    pipeline: the ranks of this rank's replica, by partition. replicas: those with this rank's partition.
    """

    def __init__(self, layout: Layout, rank: int, shared: Iterable[frozenset[int]]) -> None:
        self._all: list[dist.ProcessGroup] = []
        mine = layout.place(rank)
        everywhere = range(layout.replicas)
        for replica in everywhere:
            members = [layout.rank(replica, partition) for partition in range(layout.partitions)]
            found = self._group(members, rank)
            if replica == mine[0]:
                assert found is not None
                self.pipeline = found
        self._sharing: dict[frozenset[int], dist.ProcessGroup | None] = {}
        for partitions in (*(frozenset([one]) for one in range(layout.partitions)), *sorted(shared, key=sorted)):
            members = sorted(layout.rank(replica, one) for replica in everywhere for one in partitions)
            self._sharing[partitions] = self._group(members, rank) if len(members) > 1 else None

    def sharing(self, partitions: frozenset[int]) -> dist.ProcessGroup | None:
        """The ranks of these partitions in all replicas, of which this one is one; None if it is alone."""
        return self._sharing[partitions]

    def close(self) -> None:
        """Leave the groups."""
        for group in self._all:
            dist.destroy_process_group(group)
        self._all.clear()

    def _group(self, members: list[int], rank: int) -> dist.ProcessGroup | None:
        group = dist.new_group(members, sort_ranks=False)  # a rank's number in a pipeline is that of its partition
        if rank not in members:
            return None
        assert isinstance(group, dist.ProcessGroup)
        self._all.append(group)
        return group
