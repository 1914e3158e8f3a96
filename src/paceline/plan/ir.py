"""The plan language: who combines which part of the buffer, for a buffer of any size.

The levels of a plan are a reduce-scatter. Read backwards, with a broadcast from the owner to the holders in
place of every Reduce, they are the all-gather that follows it. Ranges are exact fractions of the buffer, so a
plan is made once per group and serves every size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Range:
    """The part `[lo, hi)` of the buffer, as fractions of its length; meant to satisfy 0 <= lo < hi <= 1."""

    lo: Fraction
    hi: Fraction

    def elements(self, count: int) -> tuple[int, int]:
        """First and one-past-last element of this range in a buffer of `count` elements.

        Both ends are rounded down, so ranges that meet in the plan meet in every buffer. May be empty.
        """
        return (
            self.lo.numerator * count // self.lo.denominator,
            self.hi.numerator * count // self.hi.denominator,
        )

    def halves(self) -> tuple[Range, Range]:
        """The lower and the upper half."""
        middle = (self.lo + self.hi) / 2
        return Range(self.lo, middle), Range(middle, self.hi)

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi})"


WHOLE = Range(Fraction(0), Fraction(1))


def block(index: int, parts: int) -> Range:
    """Part `index` of `parts` equal parts of the buffer."""
    return Range(Fraction(index, parts), Fraction(index + 1, parts))


@dataclass(frozen=True, slots=True)
class Reduce:
    """The holders' copies of `range` are combined, in the order of `holders`, into the owner's buffer.

    Afterwards only the owner's copy counts. An owner that is no holder only receives: its copy is stale.
    """

    range: Range
    holders: tuple[int, ...]
    owner: int

    def __str__(self) -> str:
        return f"{self.range} {{{', '.join(map(str, self.holders))}}} -> {self.owner}"


Level = tuple[Reduce, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Levels that ranks 0 .. world-1 run one after the other; the Reduces of one level run in parallel."""

    world: int
    name: str
    levels: tuple[Level, ...]
