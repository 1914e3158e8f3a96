"""Strategies for topologies as a file can describe them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from paceline.topology import Link, Node, Topology
from paceline.topology.units import FASTEST, LONGEST, SLOWEST

_printable = st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"]) | st.just(" ")
names = st.text(_printable, max_size=60).map(lambda text: text if text.strip() else f"{text}x")
speeds = st.one_of(
    st.floats(SLOWEST, FASTEST), st.sampled_from([0.5, 1.0, 10.0, 25.0, 100.0, 200.0]).map(lambda gbit: gbit * 1.25e8)
)
latencies = st.one_of(st.floats(0, LONGEST), st.sampled_from([0.0, 1e-6, 50e-6, 1.5e-3]))
links = st.one_of(
    st.builds(Link, speeds, speeds, latencies), st.builds(lambda s, t: Link(s, s, t), speeds, st.just(50e-6))
)
uplinks = st.builds(replace, links, burst=latencies)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any shape that the file allows, with ranks named by their numbers and all others uniquely where they must be."""
    taken: set[str] = set()
    count = 0

    def unique() -> str:
        name = draw(names)
        while name in taken:
            name += "+"
        taken.add(name)
        return name

    def ranks() -> tuple[Node, ...]:
        nonlocal count
        local = draw(links)
        made = []
        for _ in range(draw(st.integers(1, 3))):
            made.append(Node("rank", f"rank {count}", draw(st.one_of(st.just(local), links))))
            count += 1
        return tuple(made)

    def machine(uplink: Link | None) -> Node:
        parts: list[Node] = []
        for number in range(draw(st.integers(1, 3))):
            if draw(st.booleans()):
                parts.append(Node("socket", f"{draw(names)}{number}", draw(links), ranks()))
            else:
                parts.extend(ranks())
        return Node("machine", unique(), uplink, tuple(parts))

    def switch(uplink: Link | None, depth: int) -> Node:
        below = [
            machine(draw(uplinks)) if depth == 0 or draw(st.booleans()) else switch(draw(uplinks), depth - 1)
            for _ in range(draw(st.integers(1, 3)))
        ]
        return Node("switch", unique(), uplink, tuple(below))

    root = machine(None) if draw(st.booleans()) else switch(None, draw(st.integers(0, 3)))
    return Topology(draw(st.one_of(st.just(root.name), names)), root)
