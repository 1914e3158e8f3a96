"""What the plans of a group assume of its network, and a tree with other links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.plan.choose import pick
from paceline.plan.cost import cost
from paceline.topology import Link, Node, Topology
from paceline.topology.discover import Placement
from paceline.topology.words import speeds


class Assumed:
    """The network that a group's plans were made for."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._seconds: dict[int, float] = {}

    def seconds(self, nbytes: int) -> float:
        """What an all-reduce of so many bytes should take."""
        if nbytes not in self._seconds:
            topology = self.placement.topology
            choice = pick("all_reduce", topology, nbytes)
            self._seconds[nbytes] = cost(choice.plan, topology, nbytes, choice.chunk or nbytes).seconds
        return self._seconds[nbytes]

    def with_uplinks(self, uplinks: Mapping[int, Link]) -> Placement:
        """The same tree with the machines' links as given, by any rank of each; other links stay as they are."""
        links = []
        for node, places in self.placement.topology.machines():
            found = [uplinks[rank] for place in places if (rank := self.placement.ranks[place]) in uplinks]
            links.append(found[0] if found else node.uplink)
        remaining = iter(links)
        root = _relinked(self.placement.topology.root, remaining.__next__)
        return Placement(replace(self.placement.topology, root=root), self.placement.ranks)


def _relinked(node: Node, next_link: object) -> Node:
    raise NotImplementedError
