"""A leader in every machine, and the leaders tell each other at once all they have: the fewest crossings of a link.

R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", International
Journal of High Performance Computing Applications 19(1), 2005: short messages are exchanged whole, as every rank then
has the result after one way, where a reduce-scatter and an all-gather take two.

The last level is in one shot: every leader combines everything for itself. M machines and B bytes: each uplink carries
B (M-1) bytes each way, among two machines as many as in any other plan, and every byte crosses it once.
"""

from __future__ import annotations

from paceline.plan.ir import WHOLE, Plan, Reduce
from paceline.plan.leaders import machines
from paceline.topology import Topology


def exchange(topology: Topology) -> Plan:
    """The first rank of a machine leads; on one machine alone nobody has anybody to exchange with."""
    local, leading = machines(topology)
    last = ((Reduce(WHOLE, tuple(leading), leading[0]),),) if len(leading) > 1 else ()
    return Plan(topology.world, "exchange", (*([local] if local else []), *last))
