"""Recursive vector halving with distance doubling: the reduce-scatter of Rabenseifner's all-reduce.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH",
International Journal of High Performance Computing Applications 19(1), 2005, on all-reduce.

Pairs at distance 1, 2, 4, ... exchange halves of what they still hold: the first and largest exchange is
between neighbours, who most often share a machine. With p the largest power of two <= n, the n - p extra
ranks first give their whole buffer to a partner and get the result back at the end; `rabenseifner`
lets the two exchange halves first.

All-reduce of n ranks and B bytes: 2 log2(p) steps, 2 more if n > p; each of the p ranks sends 2 B (p-1)/p
bytes, an extra rank B, its partner B more.
"""

from __future__ import annotations

from paceline.plan.ir import WHOLE, Level, Plan, Reduce


def halving_doubling(world: int) -> Plan:
    """Return the plan, in which ownership follows the reversed bits of the rank; extra ranks own nothing."""
    extra, ranks = pairs(world)
    fold = tuple(Reduce(WHOLE, pair, pair[0]) for pair in extra)
    return Plan(world, "halving_doubling", ((fold,) if fold else ()) + halving(ranks))


def pairs(world: int) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the pairs of neighbours whose second rank is an extra one, and the other ranks, a power of two of them."""
    power = 1 << (world.bit_length() - 1)
    extra = world - power
    ranks = [2 * index if index < extra else index + extra for index in range(power)]
    return [(2 * index, 2 * index + 1) for index in range(extra)], ranks


def halving(ranks: list[int]) -> tuple[Level, ...]:
    """Return the levels in which `ranks`, a power of two of them, exchange halves of what they hold."""
    mine = [WHOLE] * len(ranks)
    levels: list[Level] = []
    distance = 1
    while distance < len(ranks):
        level: list[Reduce] = []
        for low in range(len(ranks)):
            high = low + distance
            if low & distance:
                continue
            pair = (ranks[low], ranks[high])
            mine[low], mine[high] = mine[low].halves()
            level += Reduce(mine[low], pair, pair[0]), Reduce(mine[high], pair, pair[1])
        levels.append(tuple(level))
        distance *= 2
    return tuple(levels)
