"""A plan for the cost model: levels that load the network alike are written down once.

A ring of 10 000 ranks has 10^8 Reduces, but all its levels send the same bytes over the same links.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.plan.ir import Level, Plan


@dataclass(frozen=True, slots=True)
class Step:
    """`times` levels in a row that cause the same messages as `level`."""

    level: Level
    times: int = 1


@dataclass(frozen=True, slots=True)
class Outline:
    """What `cost` needs to know of a plan for ranks 0 .. world-1."""

    world: int
    name: str
    steps: tuple[Step, ...]


def outline(plan: Plan) -> Outline:
    """Every level by itself."""
    return Outline(plan.world, plan.name, tuple(map(Step, plan.levels)))
