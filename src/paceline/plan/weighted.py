"""Paceline's own plan: weighted, contained, and made for levels that overlap chunk by chunk.

FlexReduce (see `flexreduce`) gives every branch of a node the same part, and a rank's next range may leave its present
one. Here `shares` says how much every rank holds after each level so that the busiest link is busy for the least time,
and `layout` places the ranges so that each rank only ever gives away: the owner of an item at the root held it at all
levels before.

With M machines whose uplinks u_i are the only slow links, and B bytes, no plan beats
T* = B max(1/u_min, 2 (M-1) / sum(u_i)), and this one reaches it; the ring takes 2 (n-1)/n B/u_min, FlexReduce
2 (M-1)/M B/u_min.
"""

from __future__ import annotations

import math

from paceline.plan.ir import Plan
from paceline.plan.layout import Layout, whole_numbers
from paceline.plan.network import Network
from paceline.plan.shares import Shares, best_shares, busiest
from paceline.topology import Topology

_LOSS = 1.0001
"""A factor by which rounding may lengthen the time of the busiest link."""
_FINEST = 1 << 40
"""The most parts into which the buffer is cut."""
_COMMON = 720720
"""Parts of the buffer; this number is divisible by 1 to 16."""


def paceline(topology: Topology) -> Plan:
    """Return the plan; every rank's ranges lie within those that it had at the level before."""
    network, best = best_shares(Network(topology))
    parts, shares = _rounded(network, best)
    return Layout(network, parts, shares).plan("paceline")


def _rounded(network: Network, shares: Shares) -> tuple[int, dict[int, list[int]]]:
    """Round the shares to the fewest parts of the buffer that cost no more than `_LOSS`; return (parts, shares)."""
    base = _common_parts(network)
    allowed = busiest(network, shares) * _LOSS
    factor = 1
    while True:
        parts = base * factor
        whole = whole_numbers(network, shares, parts)
        tried = {node: [share / parts for share in values] for node, values in whole.items()}
        if parts >= _FINEST or busiest(network, tried) <= allowed:
            return parts, whole
        factor = factor * 3 // 2 if factor.bit_count() == 1 and factor > 1 else 1 << factor.bit_length()


def _common_parts(network: Network) -> int:
    """The number of parts with which equal cuts at all nodes are whole numbers, unless that takes too many."""
    common = 1
    for leaf in network.leaves:
        common = math.lcm(common, math.prod(len(network.parts[node]) for node in network.above(leaf)))
        if common > _COMMON:
            return _COMMON
    return common
