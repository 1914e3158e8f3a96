"""Build a tree from the sets of what is below each of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from paceline.topology.tree import Link, Node

Below = frozenset[int]
"""The numbers of the machines, or the ranks, below a node."""


def nest(parts: Mapping[Below, Node], switches: Sequence[tuple[Below, str, Link]]) -> tuple[Node, ...]:
    """Return the outermost nodes, sorted by the least number below each.

    parts: the nodes to be joined, by the numbers below them; these sets are disjoint. switches: (numbers below, name,
    link) of each switch, the smallest first; any two of these sets are nested or disjoint.
    """
    nodes = dict(parts)
    for below, name, link in switches:
        inside = sorted((part for part in nodes if part <= below), key=min)
        nodes[below] = Node("switch", name, link, tuple(nodes.pop(part) for part in inside))
    return tuple(nodes[part] for part in sorted(nodes, key=min))


def numbered(node: Node, numbers: Iterator[int]) -> Node:
    """Return the same node with its ranks named "rank N" by successive `numbers`."""
    if node.kind == "rank":
        return replace(node, name=f"rank {next(numbers)}")
    return replace(node, children=tuple(numbered(child, numbers) for child in node.children))


def free_name(name: str, taken: set[str]) -> str:
    """Return `name`, with a number where it is in `taken` already, and add the result to `taken`."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    taken.add(free)
    return free
