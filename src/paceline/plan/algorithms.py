"""The all-reduce algorithms for networks, by name: their plan for a topology, and its outline for the cost model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline.plan.blueconnect import blueconnect, blueconnect_outline
from paceline.plan.double_tree import double_tree
from paceline.plan.flexreduce import flexreduce
from paceline.plan.halving_doubling import halving_doubling
from paceline.plan.ir import Plan
from paceline.plan.leaders import leaders, leaders_outline
from paceline.plan.outline import Outline, outline
from paceline.plan.rabenseifner import rabenseifner
from paceline.plan.ring import ring, ring_outline
from paceline.plan.tree import tree
from paceline.plan.weighted import paceline
from paceline.topology import Topology


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A planner. `lines` returns what `plan` sends, for the cost model, without writing down what repeats itself."""

    name: str
    plan: Callable[[Topology], Plan]
    lines: Callable[[Topology], Outline]


def _algorithm(
    name: str, plan: Callable[[Topology], Plan], lines: Callable[[Topology], Outline] | None = None
) -> Algorithm:
    return Algorithm(name, plan, lines or (lambda topology: outline(plan(topology))))


_ALL = (
    # Ranks are numbered along the tree, so a ring crosses every link once each way.
    _algorithm("ring", lambda topology: ring(topology.world), lambda topology: ring_outline(topology.world)),
    _algorithm("halving_doubling", lambda topology: halving_doubling(topology.world)),
    _algorithm("rabenseifner", lambda topology: rabenseifner(topology.world)),
    _algorithm("tree", tree),
    _algorithm("leaders", leaders, leaders_outline),
    _algorithm("double_tree", lambda topology: double_tree(topology.world)),
    _algorithm("blueconnect", blueconnect, blueconnect_outline),
    _algorithm("flexreduce", flexreduce),
    _algorithm("paceline", paceline),
)
ALGORITHMS = {algorithm.name: algorithm for algorithm in _ALL}


def named(name: str) -> Algorithm:
    """Return the algorithm of this name. Raises ValueError, which lists the known names."""
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise ValueError(f"{name!r} is no algorithm; there are {', '.join(ALGORITHMS)}") from None
