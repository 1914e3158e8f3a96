"""A plan as plain tuples of integers, the form in which the engine takes it."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from paceline.plan.ir import Plan, Range, Reduce
from paceline.plan.verify import PlanError

WireReduce = tuple[int, int, int, int, tuple[int, ...], int]
"""(lo numerator, lo denominator, hi numerator, hi denominator, holders, owner)"""
WireLevels = tuple[tuple[WireReduce, ...], ...]
PlanEntry = tuple[int, str, bool, int, WireLevels]
"""(limit in bytes, inclusive, -1 for none; name; one_shot; chunk in bytes, 0 for none; levels)"""


FINEST = 1 << 63
"""What a denominator must stay below."""


def fits(steps: Iterable[Reduce]) -> bool:
    """Whether the ends of all ranges can be said in 64 bits, as the engine has them."""
    return all(step.range.lo.denominator < FINEST and step.range.hi.denominator < FINEST for step in steps)


def to_wire(plan: Plan) -> WireLevels:
    """The levels of `plan` for the engine. Raises PlanError if its ranges are too fine for that."""
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


def from_wire(world: int, name: str, levels: WireLevels) -> Plan:
    """The plan whose wire form is `levels`; see `verify` for whether it is any good.

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
