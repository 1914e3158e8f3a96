"""Decide how much of the buffer every rank holds after each level, so that no link is busy longer than necessary.

`share[p][v]` is the fraction that rank v holds once node p has combined the copies of its children, for every p above
v. The ranks below a node hold the whole buffer between them, and a rank never gains: it keeps a part of what it held
(the plan is *contained*). Let A(c, p) be the sum over the ranks below c, and d_p the number of p's parts. When p
combines, the link above c carries A(c, p') - A(c, p) upwards (p' is the part of p that c is or lies below) and
(d_p - 1) A(c, p) downwards, and in the all-gather the same the other way round, so everything is linear in the shares.
Where links further down are no faster, it is better not to combine in every node. If a node that only forwards has k
parts of p below it, its link carries k (1 - A(c, p)) upwards and (d_p - k) A(c, p) downwards.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from paceline.calibration import plan as fitted
from paceline.plan.bound import bound
from paceline.plan.network import Network

Shares = dict[int, list[float]]
"""For every combining node, the fractions that its ranks hold, in order; they sum to 1."""

_EXACT = 1 + 1e-9
"""A factor within which two times are equal."""
_FEW = 256
"""Ranks up to which plans are tried in which some nodes only forward, since each rank may then exchange with all."""


def best_shares(network: Network) -> tuple[Network, Shares]:
    """Return the network with the nodes that combine, and the shares that keep the busiest link busy least long.

    On two levels there is a closed form where the machines' links are the limit; elsewhere it is a linear program.
    """
    if network.world == 1:
        return network, {}
    least = bound(network, 1).seconds
    shares = _two_levels(network, least)
    if shares is not None:
        return network, shares
    from paceline.plan.program import programmed_shares  # SciPy takes half a second to load

    best, found = network, programmed_shares(network)
    if network.world <= _FEW:
        for passing in _worth_a_try(network):
            if busiest(best, found) <= least * (1 + fitted.WORTH_MORE_MESSAGES):
                break
            other = Network(network.topology, passing)
            tried = programmed_shares(other)
            if busiest(other, tried) * (1 + fitted.WORTH_MORE_MESSAGES) < busiest(best, found):
                best, found = other, tried
    return best, found


def _worth_a_try(network: Network) -> Iterator[frozenset[int]]:
    """Sets of nodes that had perhaps better only forward: those at one depth, and all but the top."""
    inner = network.combining[1:]
    by_depth: dict[int, set[int]] = {}
    for node in inner:
        by_depth.setdefault(network.depth[node], set()).add(node)
    yield from dict.fromkeys(map(frozenset, (*by_depth.values(), inner)))


def busiest(network: Network, shares: Shares) -> float:
    """Return the seconds per byte of the buffer that the busiest link needs."""
    total = np.zeros(len(network.up))
    for up, down, index, _ in _loads(network, shares):
        total[index] += up + down
    return float((total / np.minimum(network.up, network.down)).max())


def _loads(network: Network, shares: Shares) -> Iterator[tuple[float, float, int, int]]:
    """(up, down, link, node): the fractions that the reduce-scatter of each node's level sends over each link below."""
    sums = {node: np.concatenate(([0.0], np.cumsum(values))) for node, values in shares.items()}
    for link in range(len(network.nodes)):
        if not network.joins(link):
            continue
        held, copies = 1.0, 0
        span = network.span[link]
        for node in network.above(link):
            copies = 1 if copies else network.copies(link, node)
            first = network.span[node].start
            kept = float(sums[node][span.stop - first] - sums[node][span.start - first])
            yield copies * (held - kept), (len(network.parts[node]) - copies) * kept, link, node
            held = kept


def _two_levels(network: Network, bound: float) -> Shares | None:
    """The shares for M machines, where u_i is the slower direction of machine i's link.

    Machine i can own x_i of every item as long as 1 + (M-2) x_i <= T u_i; the x_i are as equal as that allows. T is the
    bound for links that are equally slow in both directions. None for deeper trees, and where the shares do not reach
    T, because the machines' links are not the limit.
    """
    nodes = network.combining
    top = nodes[0]  # parents come first
    if any(len(list(network.above(leaf))) > 2 for leaf in network.leaves):
        return None
    parts = network.parts[top]
    speeds = [_slowest(network, part, top) for part in parts]
    least = max(bound, 2 * (len(parts) - 1) / sum(speeds))
    limits = [max(0.0, least * speed - 1) / max(1, len(parts) - 2) for speed in speeds]
    owned = level_out(limits if len(parts) > 2 else [1.0] * len(parts))
    if owned is None:
        return None
    shares = {node: [1 / len(network.span[node])] * len(network.span[node]) for node in nodes}
    shares[top] = [
        x / len(network.span[part]) for x, part in zip(owned, parts, strict=True) for _ in network.span[part]
    ]
    return shares if busiest(network, shares) <= least * _EXACT else None


def _slowest(network: Network, part: int, top: int) -> float:
    """The bytes per second of the slowest link from this part up to the node."""
    speed = np.inf
    while part != top:
        speed = min(speed, network.up[part], network.down[part])
        part = network.parent[part]
    return float(speed)


def level_out(limits: list[float]) -> list[float] | None:
    """Return fractions, as equal as their limits allow, that sum to 1; None if the limits sum to less."""
    if sum(limits) < 1 / _EXACT:
        return None
    parts = [0.0] * len(limits)
    left = 1.0
    by_limit = sorted(range(len(limits)), key=limits.__getitem__)
    for place, index in enumerate(by_limit):
        parts[index] = min(limits[index], left / (len(limits) - place))
        left -= parts[index]
    parts[by_limit[-1]] += left
    return parts
