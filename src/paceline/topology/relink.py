"""The same tree with other links between machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from paceline.topology.tree import Link, Node, Topology


def relink(topology: Topology, uplinks: Sequence[Link]) -> Topology:
    """Machine i, in the order of a walk, gets `uplinks[i]`; links of switches and ranks stay as they are.

    Raises ValueError unless there is one link for each machine.
    """
    machines = sum(1 for _ in topology.machines())
    if len(uplinks) != machines:
        raise ValueError(f"{len(uplinks)} links were given for {machines} machines")
    return replace(topology, root=_relinked(topology.root, iter(uplinks)))


def _relinked(node: Node, uplinks: Iterator[Link]) -> Node:
    if node.kind == "machine":
        return replace(node, uplink=next(uplinks))
    return replace(node, children=tuple(_relinked(child, uplinks) for child in node.children))
