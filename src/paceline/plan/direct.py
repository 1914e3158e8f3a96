"""Direct reduce-scatter: every rank combines its own block straight from all copies.

J. M. Hashmi, S. Chakraborty, M. Bayatpour, H. Subramoni, D. K. Panda, "Designing Efficient Shared Address
Space Reduction Collectives for Multi-/Many-cores", IPDPS 2018.

An all-reduce of n ranks and B bytes takes 2 steps; each rank sends 2 B (n-1)/n bytes in 2 (n-1) messages. No partial
result is ever stored, so where all copies lie in one memory no plan causes less memory traffic.
"""

from __future__ import annotations

from paceline.plan.ir import Plan, Reduce, block


def direct(world: int) -> Plan:
    """Return the plan after which rank i owns `[i/n, (i+1)/n)`; it also serves reduce-scatter and all-gather."""
    if world == 1:
        return Plan(world, "direct", ())
    everyone = tuple(range(world))
    return Plan(world, "direct", (tuple(Reduce(block(rank, world), everyone, rank) for rank in everyone),))
