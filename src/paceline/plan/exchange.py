"""A leader in every machine, and all leaders send each other everything at once: the fewest link crossings in a row.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", International
Journal of High Performance Computing Applications 19(1), 2005: short messages are exchanged whole, as every rank then
has the result after one way, where a reduce-scatter and an all-gather take two.

The last level runs in one shot: every leader combines everything for itself. With M machines and B bytes, each uplink
carries B (M-1) bytes each way, which is as little as in any other plan where M = 2, and every byte crosses it once.
"""

from __future__ import annotations

from paceline.plan.ir import WHOLE, Plan, Reduce
from paceline.plan.leaders import machines
from paceline.topology import Topology


def exchange(topology: Topology) -> Plan:
    """Return the plan in which the first rank of every machine leads. On a single machine it has no exchange."""
    local, leading = machines(topology)
    last = ((Reduce(WHOLE, tuple(leading), leading[0]),),) if len(leading) > 1 else ()
    return Plan(topology.world, "exchange", (*([local] if local else []), *last))
