"""Broadcast from machine to machine: each forwards what it receives to one other, chunk by chunk.

R. A. van de Geijn, J. Watts, "SUMMA: Scalable Universal Matrix Multiplication Algorithm", Concurrency: Practice and
Experience 9(4), 1997, describe this pipelined ring broadcast.

From its own root every link carries the data at most once each way, however many machines there are; in a binomial
tree of M machines (see `broadcast_tree`) the root's link carries them ceil(log2 M) times. In C chunks it takes
C + M - 2 steps between machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from paceline.plan.broadcast_tree import first, levels_of
from paceline.plan.ir import WHOLE, Level, Plan, Reduce
from paceline.plan.network import Network
from paceline.topology import Topology


def broadcast_chain(topology: Topology, root: int) -> Plan:
    """Return the plan after which `root` owns the whole buffer; read backwards, it is a broadcast from `root`.

    The chain follows a walk that visits the root's part of every node first, so that the data enter every switch once.
    Within a machine they spread as in `broadcast_tree`.
    """
    network = Network(topology)
    machines = [network.span[node] for node in _walk(network, 0, root)]
    inside = levels_of(network, root, ("machine", "socket"))
    links = [
        (Reduce(WHOLE, tuple(sorted(pair)), pair[0]),) for pair in pairwise(first(ranks, root) for ranks in machines)
    ]
    levels: list[Level] = [*inside, *reversed(links)]
    return Plan(network.world, "chain", tuple(level for level in levels if level))


def _walk(network: Network, node: int, root: int) -> Iterator[int]:
    """The machines at and below this node, and the ranks that are in none."""
    if network.nodes[node].kind in ("machine", "rank"):
        yield node
        return
    for child in sorted(network.children[node], key=lambda child: root not in network.span[child]):
        yield from _walk(network, child, root)
