"""The speeds of ranks that outnumber the CPUs they share: the more of the others wait, the faster each computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from paceline.topology.discover import Placement
from paceline.torch.partitioned.crowds import crowds
from paceline.torch.partitioned.layout import Layout


class Speeds:
    """The speeds of a replica's ranks, of which all other replicas are taken to do the same at the same time.

    Speed 1 is that of a rank with a CPU of its own. CPUs are divided equally among the ranks that compute, and each of
    these can use one.
    """

    def __init__(self, layout: Layout, placement: Placement) -> None:
        self._crowds = [(Counter(layout.place(rank)[1] for rank in ranks), cpus) for ranks, cpus in crowds(placement)]

    def __call__(self, computing: Collection[int]) -> dict[int, float]:
        """The speed of each of these partitions, while these compute and no others."""
        shares = dict.fromkeys(computing, 1.0)
        for ranks, cpus in self._crowds:
            there = sum(ranks[one] for one in computing)
            for one in computing:
                if ranks[one]:
                    shares[one] = min(shares[one], cpus / there)
        return shares
