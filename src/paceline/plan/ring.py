"""Ring reduce-scatter: each block travels once around the ring and is combined with a copy at every stop.

P. Patarasuk, X. Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", Journal of
Parallel and Distributed Computing 69(2), 2009.

All-reduce of n ranks and B bytes: 2 (n-1) steps; each rank sends 2 B (n-1)/n bytes, always to its right
neighbour in the reduce-scatter and to its left one in the all-gather. No all-reduce sends less per rank.
"""

from __future__ import annotations

from paceline.plan.ir import Level, Plan, Reduce, block


def ring(world: int) -> Plan:
    """Rank i ends as the owner of `[i/n, (i+1)/n)`: also serves reduce-scatter and all-gather."""
    blocks = [block(index, world) for index in range(world)]
    # The neighbours between whom a block moves when it comes to a rank; made once, shared by all levels.
    pairs = [tuple(sorted(((rank - 1) % world, rank))) for rank in range(world)]
    levels: list[Level] = []
    for step in range(world - 1):
        # Block i sets out from rank i+1, so that its last stop is rank i.
        stops = [(index + 2 + step) % world for index in range(world)]
        levels.append(tuple(Reduce(blocks[index], pairs[stop], stop) for index, stop in enumerate(stops)))
    return Plan(world, "ring", tuple(levels))
