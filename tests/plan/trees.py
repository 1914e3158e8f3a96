"""Topologies for tests: machines under one switch, and random trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from hypothesis import strategies as st

from paceline.topology import Cpus, Link, Node, Topology

GBIT = 1e9 / 8
"""Bytes per second of 1 Gbit/s."""


def link(up: float, down: float | None = None, latency: float = 0.0) -> Link:
    """Gbit/s."""
    return Link(up * GBIT, (up if down is None else down) * GBIT, latency)


def machines(sizes: Sequence[int], uplinks: Sequence[float], local: float = 10, latency: float = 0.0) -> Topology:
    """Machines with these ranks and uplinks in Gbit/s under one switch."""
    return Topology(
        "machines",
        Node(
            "switch",
            "top",
            None,
            tuple(
                Node(
                    "machine",
                    f"machine {number}",
                    link(speed, latency=latency),
                    (Node("rank", "", link(local)),) * size,
                )
                for number, (size, speed) in enumerate(zip(sizes, uplinks, strict=True))
            ),
        ),
    )


def on_cpus(topology: Topology, count: int) -> Topology:
    """With all of its machines on so many CPUs, as containers of one host."""

    def placed(node: Node) -> Node:
        if node.kind == "machine":
            return replace(node, cpus=Cpus("host", count))
        return replace(node, children=tuple(map(placed, node.children)))

    return replace(topology, root=placed(topology.root))


speeds = st.sampled_from([0.1, 0.2, 0.25, 0.5, 0.8, 1.0, 2.0, 10.0, 25.0])


@st.composite
def links(draw: st.DrawFn) -> Link:
    up = draw(speeds)
    down = draw(speeds) if draw(st.booleans()) else up
    return link(up, down, draw(st.sampled_from([0.0, 1e-6, 5e-5])))


@st.composite
def trees(draw: st.DrawFn, most: int = 64, local: float | None = None) -> Topology:
    """2 to 5 levels of nodes, 1 to `most` ranks; machines stand at any depth below the root, or are the root.

    local: Gbit/s of all links inside machines; otherwise they differ, and some machines have sockets.
    """
    left = draw(st.integers(1, most))
    number = count()

    def below(depth: int, ranks: int) -> tuple[Node, ...]:
        if depth == 1 or draw(st.integers(0, 5)) == 0:
            return (machine(ranks),)
        nodes: list[Node] = []
        while ranks:
            part = draw(st.integers(1, ranks))
            nodes.append(branch(depth - 1, part))
            ranks -= part
        return tuple(nodes)

    def branch(depth: int, ranks: int) -> Node:
        if depth == 1:
            return machine(ranks)
        return Node("switch", f"switch {next(number)}", draw(links()), below(depth, ranks))

    def machine(ranks: int) -> Node:
        return Node("machine", f"machine {next(number)}", draw(links()), inside(ranks))

    def inside(ranks: int) -> tuple[Node, ...]:
        if local is not None or levels > 3 or draw(st.integers(0, 3)):
            return alone(ranks)
        first = draw(st.integers(1, ranks))
        sizes = [size for size in (first, ranks - first) if size]
        return tuple(Node("socket", f"socket {place}", draw(links()), alone(size)) for place, size in enumerate(sizes))

    def alone(ranks: int) -> tuple[Node, ...]:
        same = draw(links()) if local is None else link(local)
        uneven = local is None and draw(st.booleans())
        return tuple(Node("rank", "", draw(links()) if uneven else same) for _ in range(ranks))

    levels = draw(st.integers(1, 4))
    if levels == 1:
        return Topology("tree", Node("machine", "machine", None, machine(left).children))
    return Topology("tree", Node("switch", "top", None, below(levels, left)))
