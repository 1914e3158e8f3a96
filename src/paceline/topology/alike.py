"""Make links equal that a measurement cannot distinguish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from paceline.topology.tree import Link, Node, Topology


def alike(topology: Topology, factor: float) -> Topology:
    """Return the topology with machines' speeds that differ by no more than `factor` set to their median.

    A plan for equal links is as good as the links are equal; a plan for differences that are noise is never good.
    """
    links = [node.uplink for node in topology.root.walk() if node.kind == "machine" and node.uplink is not None]
    speed = _medians([way for link in links for way in (link.up, link.down)], factor)

    def settled(node: Node) -> Node:
        if node.kind == "switch":
            return replace(node, children=tuple(map(settled, node.children)))
        if node.kind != "machine" or node.uplink is None:
            return node
        link = node.uplink
        return replace(node, uplink=Link(speed[link.up], speed[link.down], link.latency, link.burst))

    return replace(topology, root=settled(topology.root))


def _medians(speeds: Sequence[float], factor: float) -> dict[float, float]:
    """The median of every speed's class; a class reaches from its slowest speed up to `factor` times as fast."""
    found: dict[float, float] = {}
    left = sorted(speeds)
    while left:
        same = [speed for speed in left if speed <= factor * left[0]]
        found.update(dict.fromkeys(same, median(same)))
        left = left[len(same) :]
    return found
