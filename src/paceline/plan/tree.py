"""A tree of leaders: for buffers so small that the number of hops decides, where some links are slow.

T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang, "MagPIe: MPI's Collective Communication
Operations for Clustered Wide Area Systems", PPoPP 1999.

The first rank of a machine combines those of its machine. Machines and switches that meet in a switch form a binomial
tree. With B bytes, the link of a machine or switch at a leaf of that tree carries B each way, the least possible; the
link of one with d children carries (d+1) B.
"""

from __future__ import annotations

from paceline.plan.broadcast_tree import levels_of
from paceline.plan.ir import Plan
from paceline.plan.leaders import machines
from paceline.plan.network import Network
from paceline.topology import Topology


def tree(topology: Topology) -> Plan:
    """Return the plan after which rank 0 owns the whole buffer."""
    local, _ = machines(topology)
    between = levels_of(Network(topology), 0, {"switch"})
    return Plan(topology.world, "tree", tuple(level for level in (local, *between) if level))
