"""A topology as arrays, so that what a link carries is a sum over the messages whose path crosses it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from paceline.topology import Cpus, Node, Topology

_FASTEST = 1e15
"""Bytes per second of a link without a limit: faster than any real link, and finite, so that it can be a divisor."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Network:
    """The nodes of a topology that have ranks, parents first, each with its link to the parent.

    Arrays over nodes have one more entry, which stands for the ancestors that a shorter path lacks. Speeds are bytes
    per second. Only a link that joins nothing (the root's, or one with all ranks on one side) has infinite speed.
    """

    def __init__(self, topology: Topology, passing: frozenset[int] = frozenset()) -> None:
        """passing: indices of the nodes that only forward what others combine."""
        self.topology = topology
        self.passing = passing
        self.nodes: list[Node] = []
        self.parent: list[int] = []
        self.depth: list[int] = []
        self.children: list[list[int]] = []
        self.leaves: list[int] = []
        """The index of the node of every rank."""
        self._add(topology.root, -1, 0)
        self.world = len(self.leaves)
        self.span = self._spans()

    def _add(self, node: Node, parent: int, depth: int) -> None:
        index = len(self.nodes)
        self.nodes.append(node)
        self.parent.append(parent)
        self.depth.append(depth)
        self.children.append([])
        if parent >= 0:
            self.children[parent].append(index)
        if node.kind == "rank":
            self.leaves.append(index)
        for child in node.children:
            if child.kind == "rank" or child.children:
                self._add(child, index, depth + 1)

    def _spans(self) -> list[range]:
        first, last = [self.world] * len(self.nodes), [0] * len(self.nodes)
        for rank, leaf in enumerate(self.leaves):
            first[leaf], last[leaf] = rank, rank + 1
        for index in range(len(self.nodes) - 1, 0, -1):
            above = self.parent[index]
            first[above], last[above] = min(first[above], first[index]), max(last[above], last[index])
        return [range(low, high) for low, high in zip(first, last, strict=True)]

    def joins(self, index: int) -> bool:
        """Return whether there are ranks on both sides of the link above node `index`."""
        return self.parent[index] >= 0 and 0 < len(self.span[index]) < self.world

    @cached_property
    def up(self) -> Floats:
        """Array of (nodes + 1,) float64: bytes per second from every node to its parent."""
        return self._speeds("up")

    @cached_property
    def down(self) -> Floats:
        """Array of (nodes + 1,) float64: bytes per second from its parent to every node."""
        return self._speeds("down")

    @cached_property
    def latency(self) -> Floats:
        """Array of (nodes + 1,) float64: seconds that a message needs to cross the link above every node."""
        links = [node.uplink for node in self.nodes]
        return np.array([link.latency if link is not None else 0.0 for link in links] + [0.0])

    @cached_property
    def burst(self) -> float:
        """Seconds of traffic that every link between machines lets cross at once after a pause."""
        bursts = [
            node.uplink.burst
            for index, node in enumerate(self.nodes)
            if node.uplink is not None and node.kind in ("switch", "machine") and self.joins(index)
        ]
        return min(bursts, default=0.0)

    @cached_property
    def machine(self) -> Integers:
        """Array of (world,) int64: the node of every rank's machine, or the rank's own node where it is in none."""
        found = [
            next((node for node in self._up_from(leaf) if self.nodes[node].kind == "machine"), leaf)
            for leaf in self.leaves
        ]
        return np.array(found, dtype=np.int64)

    @cached_property
    def crowds(self) -> list[tuple[Integers, int]]:
        """(ranks, CPUs) of every set of ranks that share fewer CPUs than there are ranks."""
        sharing: dict[Cpus, list[int]] = {}
        for node, span in zip(self.nodes, self.span, strict=True):
            if node.cpus is not None:
                sharing.setdefault(node.cpus, []).extend(span)
        return [(np.array(ranks), cpus.count) for cpus, ranks in sharing.items() if cpus.count < len(ranks)]

    def busiest(self, each: Floats) -> float:
        """The most that one CPU has to do, if every rank has so much; those that share too few CPUs share the work.

        each: array of (world,) float64.
        """
        shared = (float(each[ranks].sum()) / cpus for ranks, cpus in self.crowds)
        return max(float(each.max(initial=0.0)), *shared, 0.0)

    @cached_property
    def ancestors(self) -> Integers:
        """Array of (depths, world) int64: `ancestors[k, rank]` is the node at depth k on the path to this rank."""
        table = np.full((max(self.depth) + 1, self.world), len(self.nodes), dtype=np.int64)
        for rank, leaf in enumerate(self.leaves):
            for node in self._up_from(leaf):
                table[self.depth[node], rank] = node
        return table

    @cached_property
    def combining(self) -> list[int]:
        """The nodes with several children that combine their children's copies, parents first."""
        return [node for node, below in enumerate(self.children) if len(below) > 1 and node not in self.passing]

    @cached_property
    def parts(self) -> dict[int, list[int]]:
        """For every combining node, the nearest combining nodes and ranks below it, whose copies it combines."""
        combining = set(self.combining)

        def below(node: int) -> Iterator[int]:
            for child in self.children[node]:
                if child in combining or not self.children[child]:
                    yield child
                else:
                    yield from below(child)

        return {node: list(below(node)) for node in self.combining}

    def above(self, index: int) -> Iterator[int]:
        """Yield the combining nodes above node `index`, the nearest first."""
        yield from (node for node in self._up_from(self.parent[index]) if node in self.parts)

    def copies(self, index: int, node: int) -> int:
        """Return how many parts of the combining `node` lie at or below `index`; 1 where `index` lies within a part."""
        if not self.passing:
            return 1
        here = self.span[index]
        return max(1, sum(set(self.span[part]) <= set(here) for part in self.parts[node]))

    def branches(self) -> Iterator[tuple[int, list[int]]]:
        """Yield (depth, nodes that have children) for every depth, the deepest first."""
        by_depth: dict[int, list[int]] = {}
        for index, below in enumerate(self.children):
            if below:
                by_depth.setdefault(self.depth[index], []).append(index)
        for depth in sorted(by_depth, reverse=True):
            yield depth, by_depth[depth]

    def name(self, index: int) -> str:
        """Return the node's name for people; a socket's includes its machine, as other machines have the same names."""
        node = self.nodes[index]
        if node.kind == "rank":
            return f"rank {self.span[index][0]}"
        return f"{self.nodes[self.parent[index]].name} {node.name}" if node.kind == "socket" else node.name

    def _up_from(self, node: int) -> Iterator[int]:
        while node >= 0:
            yield node
            node = self.parent[node]

    def _speeds(self, way: str) -> Floats:
        speeds = [math.inf] * (len(self.nodes) + 1)
        for index, node in enumerate(self.nodes):
            if node.uplink is not None and self.joins(index):
                speeds[index] = min(_FASTEST, getattr(node.uplink, way))
        return np.array(speeds)
