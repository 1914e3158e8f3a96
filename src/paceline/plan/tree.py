"""Up a tree of leaders and down again: for buffers so small that every way counts, where some links are slow.

T. Kielmann, R. F. H. Hofman, H. E. Bal, A. Plaat, R. A. F. Bhoedjang, "MagPIe: MPI's Collective Communication
Operations for Clustered Wide Area Systems", PPoPP 1999.

The ranks of a machine meet in its first one; between the machines and switches that meet in a switch, a binomial tree.
B bytes: the link of a machine or switch at a leaf carries B each way, all that is needed; one with d children in the
tree (d+1) B.
"""

from __future__ import annotations

from paceline.plan.broadcast_tree import levels_of
from paceline.plan.ir import Plan
from paceline.plan.leaders import machines
from paceline.plan.network import Network
from paceline.topology import Topology


def tree(topology: Topology) -> Plan:
    """Rank 0 ends as the owner of everything."""
    local, _ = machines(topology)
    between = levels_of(Network(topology), 0, {"switch"})
    return Plan(topology.world, "tree", tuple(level for level in (local, *between) if level))
