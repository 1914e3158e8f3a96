"""Renumber the ranks of a plan. Planners number them in the order of a walk through the topology, jobs as they like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.plan.ir import Plan, Reduce


def relabel(plan: Plan, ranks: Sequence[int]) -> Plan:
    """Return `plan` with `ranks[i]` in the place of rank i. Copies are still combined in the order of ranks.

    Raises ValueError unless `ranks` has every rank exactly once.
    """
    if sorted(ranks) != list(range(plan.world)):
        raise ValueError(f"{list(ranks)[:20]} are not the {plan.world} ranks of the plan, each once")
    if list(ranks) == list(range(plan.world)):
        return plan

    def moved(step: Reduce) -> Reduce:
        return Reduce(step.range, tuple(sorted(ranks[holder] for holder in step.holders)), ranks[step.owner])

    return replace(plan, levels=tuple(tuple(map(moved, level)) for level in plan.levels))
