"""All-gather and reduce-scatter along the tree: each block enters every machine once.

This is the layout of Paceline's all-reduce (see `layout`) with the final ranges given: rank i owns block i. Above that,
the ranks of a machine hold, and pass on to each other, equal parts of the buffer. In an all-gather of B bytes by n
ranks, n_i of them in machine i of M, B (n-n_i)/n bytes enter machine i, the least possible, and B (M-1) n_i/n leave it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.plan.ir import Plan
from paceline.plan.layout import Layout, whole_numbers
from paceline.plan.network import Network
from paceline.topology import Topology

_MOST_PARTS = 1 << 40
"""The most parts into which the buffer is cut, so that the ends of ranges stay well within 64-bit fractions."""


def blocks(topology: Topology, places: Sequence[int]) -> Plan:
    """Return the plan after which rank i of the topology owns block `places[i]`.

    places: a permutation of 0 .. world-1.
    """
    network = Network(topology)
    parts = network.world
    for node in network.combining:
        common = math.lcm(parts, len(network.span[node]))
        parts = common if common <= _MOST_PARTS else parts
    shares = {node: [1 / len(network.span[node])] * len(network.span[node]) for node in network.combining}
    order = sorted(range(network.world), key=places.__getitem__)
    return Layout(network, parts, whole_numbers(network, shares, parts), order).plan("tree")
