"""Flat tree: rank 0 exchanges messages with every other rank directly.

J. Pjesivac-Grbovic, T. Angskun, G. Bosilca, G. E. Fagg, E. Gabriel, J. J. Dongarra, "Performance Analysis of
MPI Collective Operations", Cluster Computing 10(2), 2007.

Broadcast of B bytes to n ranks (the level read backwards): 1 step, in which the root sends B (n-1) bytes.
In one shot (every rank carries out the Reduce for itself, without an all-gather) it is an all-reduce in 1 step, in
which each rank sends B (n-1) bytes and combines n copies, in the same order everywhere, so that all get the same bits.
"""

from __future__ import annotations

from paceline.plan.ir import WHOLE, Plan, Reduce


def flat(world: int) -> Plan:
    """Return the plan after which rank 0 owns the whole buffer; read backwards, it is a broadcast from rank 0."""
    if world == 1:
        return Plan(world, "flat", ())
    return Plan(world, "flat", ((Reduce(WHOLE, tuple(range(world)), 0),),))
