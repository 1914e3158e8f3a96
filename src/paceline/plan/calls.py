"""From who holds what to the Reduces that move it on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from paceline.plan.ir import Range, Reduce

Piece = tuple[int, int, int]
"""(begin, end, rank), in parts of the buffer."""


def calls(held: Sequence[Iterable[Piece]], owned: Iterable[Piece], parts: int) -> Iterator[Reduce]:
    """The branches' pieces (each the whole buffer) become the owners'; a call ends where anybody changes."""
    changes: dict[int, list[tuple[int, int]]] = {}
    for place, pieces in enumerate([*held, owned]):
        for begin, _, rank in pieces:
            changes.setdefault(begin, []).append((place, rank))
    now = [0] * (len(held) + 1)
    for begin, end in pairwise([*sorted(changes), parts]):
        for place, rank in changes[begin]:
            now[place] = rank
        yield Reduce(Range(Fraction(begin, parts), Fraction(end, parts)), tuple(now[:-1]), now[-1])
