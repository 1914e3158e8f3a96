"""A plan as plain tuples of integers, the form in which the engine takes it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from paceline.plan.choice import Choice
from paceline.plan.ir import Plan, Range, Reduce
from paceline.plan.verify import PlanError

WireReduce = tuple[int, int, int, int, tuple[int, ...], int]
"""(lo numerator, lo denominator, hi numerator, hi denominator, holders, owner)"""
WireLevels = tuple[tuple[WireReduce, ...], ...]
PlanEntry = tuple[int, str, bool, int, int, WireLevels]
"""(limit in bytes, inclusive, -1 for none; name; one_shot; chunk in bytes, 0 for none; chunks under way; levels)"""


FINEST = 1 << 63
"""Denominators must stay below this, because the engine holds them in 64 signed bits."""


def fits(steps: Iterable[Reduce]) -> bool:
    """Return whether the ends of all ranges fit into the 64-bit fractions of the engine."""
    return all(step.range.lo.denominator < FINEST and step.range.hi.denominator < FINEST for step in steps)


def to_wire(plan: Plan) -> WireLevels:
    """Return the levels of `plan` for the engine. Raises PlanError if its ranges are too fine for 64-bit fractions."""
    if not all(map(fits, plan.levels)):
        raise PlanError(plan, "on this network its ranges need fractions finer than 64 bits; choose another algorithm")
    # A plan has few ranges and many Reduces, and reading a Fraction costs more than all the rest.
    ends: dict[int, tuple[int, int, int, int]] = {}

    def lower(step: Reduce) -> WireReduce:
        part = step.range
        four = ends.get(id(part))
        if four is None:
            four = (part.lo.numerator, part.lo.denominator, part.hi.numerator, part.hi.denominator)
            ends[id(part)] = four
        return (*four, step.holders, step.owner)

    return tuple(tuple(map(lower, level)) for level in plan.levels)


def entry(choice: Choice) -> PlanEntry:
    """Return a choice for the engine. Raises PlanError if its ranges are too fine for 64-bit fractions."""
    return choice.limit, choice.name, choice.one_shot, choice.chunk, choice.under_way, to_wire(choice.plan)


def from_wire(world: int, name: str, levels: WireLevels) -> Plan:
    """Return the plan whose wire form is `levels`. It may be wrong; `verify` checks it.

    Raises ZeroDivisionError for a denominator of 0.
    """
    return Plan(
        world,
        name,
        tuple(
            tuple(
                Reduce(Range(Fraction(lo, lo_den), Fraction(hi, hi_den)), tuple(holders), owner)
                for lo, lo_den, hi, hi_den, holders, owner in level
            )
            for level in levels
        ),
    )
