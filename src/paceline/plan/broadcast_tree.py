"""Broadcast along the tree: the first ranks of the parts of the network that meet in a node form a binomial tree.

T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang, "MagPIe: MPI's Collective Communication
Operations for Clustered Wide Area Systems", PPoPP 1999.

The data enter every machine and every switch once, also from another root, along the same edges turned: the edges of
the ranks below any node are a tree of their own. With fan-outs d_0, d_1, ... it takes sum(ceil(log2 d_l)) steps,
from another root at most twice as many.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import zip_longest

from paceline.plan.ir import WHOLE, Level, Plan, Reduce
from paceline.plan.network import Network
from paceline.topology import Topology


def broadcast_tree(topology: Topology, root: int) -> Plan:
    """Return the plan after which `root` owns the whole buffer; read backwards, it is a broadcast from `root`."""
    network = Network(topology)
    kinds = {node.kind for node in network.nodes}
    return Plan(network.world, "tree", tuple(level for level in levels_of(network, root, kinds) if level))


def levels_of(network: Network, root: int, kinds: Collection[str]) -> Iterator[Level]:
    """Yield the levels of the binomial trees of the parts that meet in nodes of these `kinds`, the deepest first."""
    for _, nodes in network.branches():
        trees = [
            binomial_of([first(network.span[child], root) for child in network.children[node]], root)
            for node in nodes
            if network.nodes[node].kind in kinds
        ]
        for side_by_side in zip_longest(*trees, fillvalue=()):
            yield tuple(step for level in side_by_side for step in level)


def first(span: range, root: int) -> int:
    """Return the rank of `span` that receives the data first."""
    return root if root in span else span.start


def binomial_of(ranks: list[int], root: int) -> list[Level]:
    """Return the levels of a binomial tree of `ranks`, rooted at `root`, or at the lowest rank if `root` is not one."""
    ranks = sorted(ranks, key=lambda rank: (rank != root, rank))
    levels: list[Level] = []
    distance = 1
    while distance < len(ranks):
        parents = range(0, len(ranks) - distance, 2 * distance)
        pairs = [(ranks[parent], ranks[parent + distance]) for parent in parents]
        levels.append(tuple(Reduce(WHOLE, tuple(sorted(pair)), pair[0]) for pair in pairs))
        distance *= 2
    return levels
