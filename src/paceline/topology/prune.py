"""The part of a topology that some of its ranks sit in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from paceline.topology.tree import Node, Topology


def prune(topology: Topology, ranks: Collection[int]) -> Topology:
    """Return the topology with only these ranks, renumbered in the same order, without nodes that have none of them.

    Raises ValueError if none of the ranks is in the topology.
    """
    kept, _ = _pruned(topology.root, 0, frozenset(ranks))
    if kept is None:
        raise ValueError(f"none of the ranks {sorted(ranks)[:20]} is in the topology of {topology.world}")
    return replace(topology, root=kept)


def _pruned(node: Node, first: int, ranks: Collection[int]) -> tuple[Node | None, int]:
    """Return what is left of the node whose first rank is `first`, and the first rank after the node."""
    if node.kind == "rank":
        return (node if first in ranks else None), first + 1
    children: list[Node] = []
    for child in node.children:
        left, first = _pruned(child, first, ranks)
        if left is not None:
            children.append(left)
    return (replace(node, children=tuple(children)) if children else None), first
