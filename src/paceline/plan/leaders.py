"""Three phases: reduce to a leader in every machine, all-reduce among the leaders, broadcast in every machine.

X. Jia et al., "Highly Scalable Deep Learning Training System with Mixed-Precision: Training ImageNet in Four
Minutes", 2018; Horovod's hierarchical all-reduce is of this kind.

The first rank of a machine leads, and the leaders use a ring. With M machines and B bytes, each uplink carries
2 B (M-1)/M bytes each way, as little as in a ring of M ranks. However, a leader receives the whole buffer of every rank
of its machine, one after another, while these ranks are idle.
"""

from __future__ import annotations

from paceline.plan.ir import WHOLE, Level, Plan, Reduce
from paceline.plan.outline import Outline, Step
from paceline.plan.ring import ring_levels, ring_steps
from paceline.topology import Topology


def leaders(topology: Topology) -> Plan:
    """Return the plan, in which only leaders own anything."""
    local, leading = machines(topology)
    return Plan(topology.world, "leaders", (*([local] if local else []), *ring_levels(leading)))


def leaders_outline(topology: Topology) -> Outline:
    """Return the outline of `leaders`."""
    local, leading = machines(topology)
    return Outline(topology.world, "leaders", (*([Step(local)] if local else []), *ring_steps(leading)))


def machines(topology: Topology) -> tuple[Level, list[int]]:
    """Return the level in which the leaders combine their machines' copies, and the leaders' ranks."""
    found = [ranks for _, ranks in topology.machines() if ranks]
    local = tuple(Reduce(WHOLE, tuple(ranks), ranks[0]) for ranks in found if len(ranks) > 1)
    return local, [ranks[0] for ranks in found]
