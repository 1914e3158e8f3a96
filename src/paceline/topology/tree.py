"""A cluster as a tree: ranks in machines, machines under switches, every node but the root linked to its parent.

The links are full duplex: data that go up do not slow data that come down. All ranks below a node share its link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["switch", "machine", "socket", "rank"]
Guess = Literal["speed", "latency"]
NOTHING_SAID: tuple[Guess, ...] = ("speed", "latency")
"""The guesses on a link of which nobody has said anything."""


@dataclass(frozen=True, slots=True)
class Link:
    """A node's link to its parent."""

    up: float
    """Bytes per second towards the parent."""
    down: float
    """Bytes per second from the parent."""
    latency: float = 0.0
    """Seconds that one message takes to cross the link."""
    burst: float = 0.0
    """Seconds of traffic that cross the link at once after a pause, as where a token bucket limits a virtual machine's
    link; 0 for a wire."""


@dataclass(frozen=True, slots=True)
class Cpus:
    """The CPUs of a machine's ranks. Machines with the same `kernel`, such as containers of one host, share them."""

    kernel: str
    count: int


@dataclass(frozen=True, slots=True)
class Node:
    """A switch, machine, socket or rank; `uplink` is None for the root only, `children` is empty for ranks only.

    cpus: the CPUs of a machine of a running job. They are None elsewhere, and each rank then counts as having a CPU.
    assumed: what of the link nobody has said or measured; it makes no difference to what is planned.
    """

    kind: Kind
    name: str
    uplink: Link | None = None
    children: tuple[Node, ...] = ()
    cpus: Cpus | None = None
    assumed: tuple[Guess, ...] = field(default=(), compare=False)

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, parents first, in order."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def size(self) -> int:
        """The number of ranks at or below this node."""
        return 1 if self.kind == "rank" else sum(child.size for child in self.children)


@dataclass(frozen=True, slots=True)
class Topology:
    """The tree of one job. Ranks are numbered from 0 in the order in which a walk meets them."""

    name: str
    root: Node

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self.root.size

    def machines(self) -> Iterator[tuple[Node, range]]:
        """Yield every machine with its ranks."""
        first = 0
        for node in self.root.walk():
            if node.kind == "machine":
                yield node, range(first, first + node.size)
                first += node.size


def without(said: Guess, assumed: tuple[Guess, ...]) -> tuple[Guess, ...]:
    """Return what is still assumed of a link once somebody has `said` one thing."""
    return tuple(each for each in assumed if each != said)
