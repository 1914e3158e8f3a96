"""A tree from sets of what is below each of its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from paceline.topology.tree import Link, Node

Below = frozenset[int]


def nest(parts: Mapping[Below, Node], switches: Sequence[tuple[Below, str, Link]]) -> tuple[Node, ...]:
    """The outermost nodes, by the least number that is below each.

    parts: what is to be joined, by the numbers that are below; no two have one in common. switches: what is below each,
    its name and its link, the smallest first; of any two, one holds the other or they are apart.
    """
    nodes = dict(parts)
    for below, name, link in switches:
        inside = sorted((part for part in nodes if part <= below), key=min)
        nodes[below] = Node("switch", name, link, tuple(nodes.pop(part) for part in inside))
    return tuple(nodes[part] for part in sorted(nodes, key=min))


def numbered(node: Node, numbers: Iterator[int]) -> Node:
    """The same with ranks named by their numbers."""
    if node.kind == "rank":
        return replace(node, name=f"rank {next(numbers)}")
    return replace(node, children=tuple(numbered(child, numbers) for child in node.children))


def free_name(name: str, taken: set[str]) -> str:
    """The name, or with a number where another node has it already, and from now on nobody else's."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    taken.add(free)
    return free
