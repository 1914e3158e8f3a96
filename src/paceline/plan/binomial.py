"""A binomial tree with rank 0 as its root.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH",
International Journal of High Performance Computing Applications 19(1), 2005, on broadcast.

Broadcast of B bytes to n ranks (the levels read backwards): ceil(log2 n) steps, the farthest ranks first;
the root sends B ceil(log2 n) bytes, every other rank receives B.
"""

from __future__ import annotations

from paceline.plan.ir import WHOLE, Level, Plan, Reduce


def binomial(world: int) -> Plan:
    """Return the plan after which rank 0 owns the whole buffer; read backwards, it is a broadcast from rank 0."""
    levels: list[Level] = []
    distance = 1
    while distance < world:
        parents = range(0, world - distance, 2 * distance)
        levels.append(tuple(Reduce(WHOLE, (parent, parent + distance), parent) for parent in parents))
        distance *= 2
    return Plan(world, "binomial", tuple(levels))
