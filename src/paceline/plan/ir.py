"""The plan language: which ranks combine which part of the buffer, for a buffer of any size.

The levels of a plan are a reduce-scatter. Read backwards, with a broadcast from the owner to the holders in
place of every Reduce, they are the all-gather that follows it. Ranges are exact fractions of the buffer, so a
plan is made once per group and serves every size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Range:
    """The part `[lo, hi)` of the buffer, as fractions of its length.

    A valid plan has 0 <= lo < hi <= 1; `verify` checks it, this class does not.
    """

    lo: Fraction
    hi: Fraction

    def elements(self, count: int) -> tuple[int, int]:
        """Return the first and the one-past-last element of this range in a buffer of `count` elements.

        Both ends are rounded down, so ranges that meet in the plan meet in every buffer. The result may be empty.
        """
        return (
            self.lo.numerator * count // self.lo.denominator,
            self.hi.numerator * count // self.hi.denominator,
        )

    def halves(self) -> tuple[Range, Range]:
        """Return the lower and the upper half of this range."""
        middle = (self.lo + self.hi) / 2
        return Range(self.lo, middle), Range(middle, self.hi)

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi})"


WHOLE = Range(Fraction(0), Fraction(1))


def block(index: int, parts: int) -> Range:
    """Return part `index` (0 .. parts-1) of `parts` equal parts of the buffer."""
    return Range(Fraction(index, parts), Fraction(index + 1, parts))


@dataclass(frozen=True, slots=True)
class Reduce:
    """The holders' copies of `range` are combined, in the order of `holders`, into the owner's buffer.

    Afterwards only the owner's copy is valid. An owner that is not a holder only receives: its own copy is stale.
    """

    range: Range
    holders: tuple[int, ...]
    owner: int

    def __str__(self) -> str:
        return f"{self.range} {{{', '.join(map(str, self.holders))}}} -> {self.owner}"


Level = tuple[Reduce, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Levels that ranks 0 .. world-1 run one after the other. The Reduces of one level run in parallel."""

    world: int
    name: str
    levels: tuple[Level, ...]
