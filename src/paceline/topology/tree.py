"""A cluster as a tree: ranks in machines, machines under switches, every node but the root linked to its parent.

The links are full duplex: what goes up does not slow what comes down. All ranks below a node share its link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["switch", "machine", "socket", "rank"]


@dataclass(frozen=True, slots=True)
class Link:
    """A node's link to its parent: bytes per second towards the parent (`up`) and from it (`down`), the seconds that
    one message takes to cross it (`latency`), and in how many seconds it carries the bytes that cross it at once after
    a pause (`burst`), as where a token bucket holds a virtual machine's link; 0 for a wire."""

    up: float
    down: float
    latency: float = 0.0
    burst: float = 0.0


@dataclass(frozen=True, slots=True)
class Cpus:
    """How many CPUs a machine's ranks have; machines with the same `kernel`, as containers of one host, share them."""

    kernel: str
    count: int


@dataclass(frozen=True, slots=True)
class Node:
    """A switch, machine, socket or rank; `uplink` is None for the root only, `children` is empty for ranks only.

    cpus: of a machine of a job; elsewhere they are not known, and each rank counts as having one.
    """

    kind: Kind
    name: str
    uplink: Link | None = None
    children: tuple[Node, ...] = ()
    cpus: Cpus | None = None

    def walk(self) -> Iterator[Node]:
        """This node and all below it, parents first, in order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def size(self) -> int:
        """How many ranks are at or below this node."""
        return 1 if self.kind == "rank" else sum(child.size for child in self.children)


@dataclass(frozen=True, slots=True)
class Topology:
    """The tree of one job. Ranks are numbered from 0 in the order in which a walk meets them."""

    name: str
    root: Node

    @property
    def world(self) -> int:
        """How many ranks there are."""
        return self.root.size

    def machines(self) -> Iterator[tuple[Node, range]]:
        """Every machine with its ranks."""
        first = 0
        for node in self.root.walk():
            if node.kind == "machine":
                yield node, range(first, first + node.size)
                first += node.size
