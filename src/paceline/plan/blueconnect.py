"""BlueConnect: one reduce-scatter per dimension of a regular network, and a ring on any other.

M. Cho, U. Finkler, D. Kung, "BlueConnect: Decomposing all-reduce for deep learning on heterogeneous network
hierarchy", SysML 2019.

In a tree whose nodes of one level all have the same number of children, the ranks at the same place below each child of
a node form a group. They hold the same part of the buffer, which the group divides evenly among them. An all-reduce
with fan-outs d_0, d_1, ... (from the ranks up) and B bytes takes 2 sum(d_l - 1) messages in sequence; each rank sends
2 B (n-1)/n bytes, of which 1/d_0 leave its machine. Where the fan-outs of a level differ there are no dimensions.
"""

from __future__ import annotations

from dataclasses import replace

from paceline.plan.ir import WHOLE, Level, Plan, Range, Reduce
from paceline.plan.network import Network
from paceline.plan.outline import Outline, outline
from paceline.plan.ring import ring, ring_outline
from paceline.topology import Topology


def dimensions(topology: Topology) -> tuple[int, ...] | None:
    """Return the fan-outs above 1 from the ranks up, or None where those of a level differ."""
    network = Network(topology)
    fan_outs = [{len(network.children[index]) for index in nodes} for _, nodes in network.branches()]
    if len({network.depth[leaf] for leaf in network.leaves}) > 1 or any(len(sizes) > 1 for sizes in fan_outs):
        return None
    return tuple(size for sizes in fan_outs for size in sizes if size > 1)


def blueconnect(topology: Topology) -> Plan:
    """Return the plan; on a regular tree every rank ends as the owner of an n-th of the buffer."""
    sizes = dimensions(topology)
    return replace(ring(topology.world), name="blueconnect") if sizes is None else _decomposed(sizes)


def blueconnect_outline(topology: Topology) -> Outline:
    """Return the outline of `blueconnect`."""
    sizes = dimensions(topology)
    if sizes is None:
        return replace(ring_outline(topology.world), name="blueconnect")
    return outline(_decomposed(sizes))


def _decomposed(sizes: tuple[int, ...]) -> Plan:
    levels: list[Level] = []
    mine, group = [WHOLE], 1  # the ranges of one node's ranks; all nodes of a level are alike
    world = 1
    for size in sizes:
        world *= size
    for size in sizes:
        level: list[Reduce] = []
        parts = [_cut(part, size) for part in mine]
        for first in range(0, world, group * size):
            for place in range(group):
                holders = tuple(range(first + place, first + group * size, group))
                level += (Reduce(parts[place][index], holders, holder) for index, holder in enumerate(holders))
        levels.append(tuple(level))
        mine = [parts[place][index] for index in range(size) for place in range(group)]
        group *= size
    return Plan(world, "blueconnect", tuple(levels))


def _cut(part: Range, size: int) -> list[Range]:
    step = (part.hi - part.lo) / size
    return [Range(part.lo + index * step, part.lo + (index + 1) * step) for index in range(size)]
