"""FlexReduce: level by level of an uneven tree, every node cuts the whole buffer among the ranks below it.

J. Lee, I. Hwang, S. Shah, M. Cho, "FlexReduce: Flexible All-reduce for Distributed Deep Learning on Asymmetric
Network Topology", DAC 2020; names below are those of its figure 3.

Every rank below a node of degree d keeps a d-th of its portion. Ranks are visited in the order of where their ranges
end, then begin, and take their next ranges one after another. What the paper leaves open: the owner of the next range
is the root of its Reduces; it need not hold that range now (its copy is stale then); ranks that no node of a level is
above keep their range. All-reduce of B bytes: each child's uplink of a node of degree d carries 2 B (d-1)/d bytes each
way, whatever the sizes of the children. A next range may leave the present one, and that part moves once more than
it had to on the links below.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from paceline.plan.ir import WHOLE, Level, Plan, Range, Reduce
from paceline.plan.network import Network
from paceline.topology import Topology


@dataclass(slots=True)
class _Leaf:
    rank: int
    portion: Fraction
    range: Range
    next_range: Range


def flexreduce(topology: Topology) -> Plan:
    """Every rank owns the product of 1/degree over the nodes above it."""
    network = Network(topology)
    leaves = [_Leaf(rank, Fraction(1), WHOLE, WHOLE) for rank in range(network.world)]
    levels: list[Level] = []
    for _, nodes in network.branches():
        level_plan: list[Reduce] = []
        for node in nodes:
            below = [leaves[rank] for rank in network.span[node]]
            children = network.children[node]
            for leaf in below:
                leaf.portion /= len(children)
            _assign_range(below)
            if len(children) > 1:
                level_plan += _calls(below, [[leaves[rank] for rank in network.span[child]] for child in children])
        for leaf in leaves:
            leaf.range = leaf.next_range
        if level_plan:
            levels.append(tuple(level_plan))
    return Plan(network.world, "flexreduce", tuple(levels))


def _assign_range(leaves: list[_Leaf]) -> None:
    progress = Fraction(0)
    for leaf in sorted(leaves, key=lambda leaf: (leaf.range.hi, leaf.range.lo, leaf.rank)):
        leaf.next_range = Range(progress, progress + leaf.portion)
        progress += leaf.portion


def _calls(leaves: list[_Leaf], children: list[list[_Leaf]]) -> list[Reduce]:
    """find_bounds for all next ranges at once: a new call begins where a holder or the owner changes."""
    held = [sorted(child, key=lambda leaf: leaf.range.lo) for child in children]
    owners = sorted(leaves, key=lambda leaf: leaf.next_range.lo)
    cuts = sorted({leaf.range.lo for leaf in leaves} | {leaf.next_range.lo for leaf in leaves} | {Fraction(1)})
    at, mine = [0] * len(held), 0
    calls: list[Reduce] = []
    for begin, end in pairwise(cuts):
        while owners[mine].next_range.hi <= begin:
            mine += 1
        for child, child_leaves in enumerate(held):
            while child_leaves[at[child]].range.hi <= begin:
                at[child] += 1
        holders = tuple(child_leaves[at[child]].rank for child, child_leaves in enumerate(held))
        calls.append(Reduce(Range(begin, end), holders, owners[mine].rank))
    return calls
