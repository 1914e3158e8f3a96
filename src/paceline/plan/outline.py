"""A plan for the cost model, in which levels that load the network alike are written down once.

A ring of 10 000 ranks has 10^8 Reduces, but all its levels send the same bytes over the same links.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.plan.ir import Level, Plan, Reduce


@dataclass(frozen=True, slots=True)
class Step:
    """`times` levels in a row that cause the same messages as `level`.

    one_shot: the level stands for both halves; each holder receives what all the others have, and nothing is sent
    back.
    """

    level: Level
    times: int = 1
    one_shot: bool = False


@dataclass(frozen=True, slots=True)
class Outline:
    """The facts that `cost` needs to know about a plan for ranks 0 .. world-1."""

    world: int
    name: str
    steps: tuple[Step, ...]


def outline(plan: Plan, one_shot: bool = False) -> Outline:
    """Return the outline of `plan`, with a step for every level. one_shot: the last level runs in one shot."""
    last = len(plan.levels) - 1
    steps = (
        Step(_for_each_holder(level), one_shot=True) if one_shot and index == last else Step(level)
        for index, level in enumerate(plan.levels)
    )
    return Outline(plan.world, plan.name, tuple(steps))


def _for_each_holder(level: Level) -> Level:
    return tuple(Reduce(step.range, step.holders, holder) for step in level for holder in step.holders)
