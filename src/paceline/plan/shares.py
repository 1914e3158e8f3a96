"""How much of the buffer every rank should hold after each level, so that no link is busy longer than it must be.

`share[p][v]`: what rank v holds once node p has combined the copies of its children, for every p above v. The ranks
below a node hold the whole buffer between them, and a rank never gains: it keeps a part of what it held (the plan is
*contained*). With A(c, p) the sum over the ranks below c, and d_p the number of children of p, the link above c
carries, when p combines, A(c, p') - A(c, p) upwards (p' the child of p that c is or lies below) and (d_p - 1) A(c, p)
downwards, and the all-gather the same the other way round: everything is linear in the shares.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from paceline.plan.bound import bound
from paceline.plan.network import Network

Shares = dict[int, list[float]]
"""By node with several children: the shares of its ranks, in order; they sum to 1."""

_EXACT = 1 + 1e-9


def best_shares(network: Network) -> Shares:
    """The shares that keep the busiest link busy for the shortest time.

    On two levels in closed form where that reaches the bound, else by linear programming.
    """
    if network.world == 1:
        return {}
    shares = _two_levels(network)
    if shares is not None and busiest(network, shares) <= bound(network, 1).seconds * _EXACT:
        return shares
    from paceline.plan.program import programmed_shares  # SciPy takes half a second to load

    return programmed_shares(network)


def busiest(network: Network, shares: Shares) -> float:
    """Seconds per byte of the buffer that the busiest link needs."""
    total = np.zeros(len(network.up))
    for up, down, index, _ in _loads(network, shares):
        total[index] += up + down
    return float((total / np.minimum(network.up, network.down)).max())


def _loads(network: Network, shares: Shares) -> Iterator[tuple[float, float, int, int]]:
    """What the reduce-scatter half of each node's level sends up and down each link below it."""
    sums = {node: np.concatenate(([0.0], np.cumsum(values))) for node, values in shares.items()}
    for link in range(len(network.nodes)):
        if not network.joins(link):
            continue
        held = 1.0
        span = network.span[link]
        for node in network.above(link):
            first = network.span[node].start
            kept = float(sums[node][span.stop - first] - sums[node][span.start - first])
            yield held - kept, (len(network.children[node]) - 1) * kept, link, node
            held = kept


def _two_levels(network: Network) -> Shares | None:
    """M machines, u_i the slower way of machine i's link: it can own x_i of every item as long as
    1 + (M-2) x_i <= T* u_i; the room that is left goes into equal parts. None for deeper trees."""
    nodes = network.combining
    top = nodes[0]  # parents come first
    if any(len(list(network.above(leaf))) > 2 for leaf in network.leaves):
        return None
    parts = network.children[top]
    least = bound(network, 1).seconds
    limits = [max(0.0, least * _slowest(network, part) - 1) / max(1, len(parts) - 2) for part in parts]
    owned = level_out(limits if len(parts) > 2 else [1.0] * len(parts))
    if owned is None:
        return None
    shares = {node: [1 / len(network.span[node])] * len(network.span[node]) for node in nodes}
    shares[top] = [
        x / len(network.span[part]) for x, part in zip(owned, parts, strict=True) for _ in network.span[part]
    ]
    return shares


def _slowest(network: Network, part: int) -> float:
    """The slowest link from here down to where the ranks part."""
    speed = float(min(network.up[part], network.down[part]))
    below = network.children[part]
    return min(speed, _slowest(network, below[0])) if len(below) == 1 else speed


def level_out(limits: list[float]) -> list[float] | None:
    """Parts of 1 as equal as their limits allow; None if the limits sum to less than 1."""
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
