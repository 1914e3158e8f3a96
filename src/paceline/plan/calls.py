"""The Reduces that turn one assignment of pieces to ranks into the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from paceline.plan.ir import Range, Reduce

Piece = tuple[int, int, int]
"""(begin, end, rank), in parts of the buffer."""


def calls(held: Sequence[Iterable[Piece]], owned: Iterable[Piece], parts: int) -> Iterator[Reduce]:
    """Yield the Reduces that combine what the branches hold into what the owners hold, from left to right.

    held: for every branch, its pieces, which cover the whole buffer. owned: the pieces after the level, which cover it
    too. parts: the number of parts of the buffer. A Reduce ends wherever a holder or the owner changes.
    """
    changes: dict[int, list[tuple[int, int]]] = {}
    for place, pieces in enumerate([*held, owned]):
        for begin, _, rank in pieces:
            changes.setdefault(begin, []).append((place, rank))
    now = [0] * (len(held) + 1)
    for begin, end in pairwise([*sorted(changes), parts]):
        for place, rank in changes[begin]:
            now[place] = rank
        yield Reduce(Range(Fraction(begin, parts), Fraction(end, parts)), tuple(now[:-1]), now[-1])
