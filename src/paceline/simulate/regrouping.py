"""The network of a job whose ranks sit on larger or smaller machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from paceline.topology import Link, Node, Topology


def regrouped(topology: Topology, factor: float) -> Topology | None:
    """Return as many ranks below every switch on machines of `factor` times as many; None if they do not fit, or share
    no machine then.

    Switches stay. A machine has the slowest link of those below its switch, and a rank the slowest link of the ranks
    there, or of the sockets that they were in.
    """
    ranks = max(len(ranks) for _, ranks in topology.machines())
    size = round(ranks * factor)
    if size < 1 or size == ranks or topology.world <= size:
        return None
    try:
        root = _below(topology.root, size, count(), count())
    except _Misfit:
        return None
    return Topology(f"{topology.world} ranks, {size} to a machine", root)


class _Misfit(Exception):
    """The ranks below a switch do not fill machines of this size."""


def _below(switch: Node, size: int, machines: Iterator[int], ranks: Iterator[int]) -> Node:
    here = [child for child in switch.children if child.kind == "machine"]
    total = sum(machine.size for machine in here)
    if total % size or switch.kind != "switch":
        raise _Misfit
    new: list[Node] = []
    if here:
        link = _slowest([machine.uplink for machine in here])
        inside = _slowest([node.uplink for machine in here for node in machine.walk() if node is not machine])
        for _ in range(total // size):
            children = tuple(Node("rank", f"rank {next(ranks)}", inside) for _ in range(size))
            new.append(Node("machine", f"machine {next(machines)}", link, children))
    others = [_below(child, size, machines, ranks) for child in switch.children if child.kind != "machine"]
    return Node("switch", switch.name, switch.uplink, (*new, *others))


def _slowest(links: Sequence[Link | None]) -> Link | None:
    known = [link for link in links if link is not None]
    return min(known, key=lambda link: min(link.up, link.down), default=None)
