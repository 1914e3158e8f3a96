"""The network that a group's plans were made for."""

from __future__ import annotations

from paceline.plan.choose import pick
from paceline.plan.cost import cost
from paceline.topology import Link
from paceline.topology.discover import Placement
from paceline.topology.relink import relink
from paceline.topology.words import speeds


class Assumed:
    """What the plans of a group take its network for: `placement.ranks[i]` sits at place i of its topology."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._seconds: dict[tuple[str, int], float] = {}

    def seconds(self, collective: str, nbytes: int) -> float:
        """What an all-reduce, all-gather or reduce-scatter of so many bytes, all ranks' together, should take."""
        key = collective, nbytes
        if key not in self._seconds:
            topology = self.placement.topology
            whole = collective == "all_reduce"
            choice = pick("all_reduce" if whole else "all_gather", topology, nbytes)
            if whole:
                line = cost(choice.plan, topology, nbytes, choice.chunk or nbytes).line
            else:  # and a reduce-scatter is that backwards
                line = cost(choice.plan, topology, nbytes, nbytes).all_gather
            self._seconds[key] = line.seconds(nbytes)
        return self._seconds[key]

    def measured(self, found: Placement) -> tuple[Placement, str]:
        """The same tree with the machines' links as they were found, and which of them are others, in words."""
        links: dict[int, Link] = {}
        for node, places in found.topology.machines():
            assert node.uplink is not None
            links.update(dict.fromkeys((found.ranks[place] for place in places), node.uplink))
        machines = list(self.placement.topology.machines())
        uplinks = [links[self.placement.ranks[places[0]]] for _, places in machines]
        news = [
            f"{node.name} {speeds(uplink)} (taken for {speeds(node.uplink)})"
            for (node, _), uplink in zip(machines, uplinks, strict=True)
            if node.uplink is not None
        ]
        return Placement(relink(self.placement.topology, uplinks), self.placement.ranks), ", ".join(news)
