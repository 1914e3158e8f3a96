"""FlexReduce: level by level of an uneven tree, every node cuts the whole buffer among the ranks below it.

J. Lee, I. Hwang, S. Shah, M. Cho, "FlexReduce: Flexible All-reduce for Distributed Deep Learning on Asymmetric
Network Topology", DAC 2020; names below are those of its figure 3.

Every rank below a node of degree d keeps a d-th of its portion. Ranks are visited in the order of where their ranges
end, then begin, and take their next ranges one after another. The paper leaves some points open, which are decided here
as follows: the owner of the next range is the root of its Reduces; it need not hold that range now (its copy is stale
then); ranks that are below no node of a level keep their range. In an all-reduce of B bytes, each child's uplink of a
node of degree d carries 2 B (d-1)/d bytes each way, whatever the sizes of the children. A next range may leave the
present one, and that part moves once more than necessary on the links below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.plan.calls import Piece, calls
from paceline.plan.ir import Level, Plan, Reduce
from paceline.plan.network import Network
from paceline.topology import Topology


@dataclass(slots=True)
class _Leaf:
    """A rank's portion and ranges, in whole parts of the buffer."""

    rank: int
    portion: int
    range: tuple[int, int]
    next_range: tuple[int, int]

    @property
    def piece(self) -> Piece:
        return (*self.range, self.rank)

    @property
    def next_piece(self) -> Piece:
        return (*self.next_range, self.rank)


def flexreduce(topology: Topology) -> Plan:
    """Return the plan after which every rank owns the product of 1/degree over the nodes above it."""
    network = Network(topology)
    parts = _parts(network)
    leaves = [_Leaf(rank, parts, (0, parts), (0, parts)) for rank in range(network.world)]
    levels: list[Level] = []
    for _, nodes in network.branches():
        level_plan: list[Reduce] = []
        for node in nodes:
            children = network.children[node]
            below = [leaves[rank] for rank in network.span[node]]
            for leaf in below:
                leaf.portion //= len(children)
            _assign_range(below)
            if len(children) > 1:
                held = [[leaves[rank].piece for rank in network.span[child]] for child in children]
                level_plan += calls(held, [leaf.next_piece for leaf in below], parts)
        for leaf in leaves:
            leaf.range = leaf.next_range
        if level_plan:
            levels.append(tuple(level_plan))
    return Plan(network.world, "flexreduce", tuple(levels))


def _parts(network: Network) -> int:
    """The number of parts of the buffer with which every portion is a whole number of them."""
    parts = 1
    for leaf in network.leaves:
        parts = math.lcm(parts, math.prod(len(network.children[node]) for node in network.above(leaf)))
    return parts


def _assign_range(leaves: list[_Leaf]) -> None:
    progress = 0
    for leaf in sorted(leaves, key=lambda leaf: (leaf.range[1], leaf.range[0], leaf.rank)):
        leaf.next_range = (progress, progress + leaf.portion)
        progress += leaf.portion
