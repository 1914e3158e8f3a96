"""A broadcast's tree, turned: the same edges from another root."""

from __future__ import annotations

from dataclasses import replace

from paceline.plan.ir import WHOLE, Level, Plan, Reduce


def turned(plan: Plan, root: int) -> Plan:
    """Return `plan`, a tree from another root, as the engine turns it for `root`; read backwards, it is the broadcast.

    The data climb from `root` to the plan's own root, then go down to the ranks that were not on that path.
    """
    climbed: list[Level] = []
    has = {root}
    at = root
    for level in plan.levels:
        up = next((step for step in level if step.owner != at and at in step.holders), None)
        if up is not None:
            climbed.append((Reduce(WHOLE, tuple(sorted((at, up.owner))), at),))
            at = up.owner
            has.add(at)
    below: list[Level] = []
    for level in plan.levels:
        below.append(
            tuple(
                Reduce(WHOLE, tuple(sorted((step.owner, holder))), step.owner)
                for step in level
                for holder in step.holders
                if holder != step.owner and holder not in has
            )
        )
    return replace(plan, levels=tuple(level for level in (*below, *reversed(climbed)) if level))
