"""Turn shares into ranges: where in the buffer the part lies that a rank should hold after each level.

The layout goes from the root down. The root's final ranges are laid out first; then the ranks below every child keep
theirs, and fill the rest of the buffer with what they hold beyond that. So every owner held its range at all levels
before, and any shares can be laid out exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from paceline.plan.calls import Piece, calls
from paceline.plan.ir import Plan, Reduce
from paceline.plan.network import Network
from paceline.plan.shares import Shares


class Layout:
    """The pieces of the buffer that every rank holds after every combining node, in `parts` parts of the buffer."""

    def __init__(
        self, network: Network, parts: int, shares: dict[int, list[int]], order: Sequence[int] | None = None
    ) -> None:
        """shares: for every combining node, the parts of each of its ranks, which sum to `parts`.

        order: the ranks in the order of their final ranges; None stands for FlexReduce's order.
        """
        self.network, self.parts, self.shares = network, parts, shares
        self.order: dict[int, list[int]] = {}
        for node in reversed(network.combining):
            self._sort(node)
        if order is not None and network.combining:
            self.order[network.combining[0]] = list(order)
        self.pieces: dict[int, list[Piece]] = {}
        for node in network.combining:
            self._place(node)

    def plan(self, name: str) -> Plan:
        """Return the plan called `name`: in its levels, the deepest nodes combine the pieces of their parts first."""
        levels: dict[int, list[Reduce]] = {}
        for node in self.network.combining:
            held = [self._pieces_of(part) for part in self.network.parts[node]]
            level = levels.setdefault(self.network.depth[node], [])
            level += calls(held, self.pieces[node], self.parts)
        return Plan(self.network.world, name, tuple(tuple(levels[depth]) for depth in sorted(levels, reverse=True)))

    def _share(self, node: int, rank: int) -> int:
        return self.shares[node][rank - self.network.span[node].start]

    def _pieces_of(self, part: int) -> list[Piece]:
        return self.pieces.get(part, [(0, self.parts, self.network.span[part].start)])

    def _sort(self, node: int) -> None:
        """Sort the ranks in FlexReduce's order: by where their shares end in the layout of their part."""
        ends: list[tuple[int, int, int]] = []
        for part in self.network.parts[node]:
            if part not in self.order:
                ends.append((self.parts, 0, self.network.span[part].start))
                continue
            at = 0
            for rank in self.order[part]:
                ends.append((at + self._share(part, rank), at, rank))
                at = ends[-1][0]
        self.order[node] = [rank for _, _, rank in sorted(ends)]

    def _place(self, node: int) -> None:
        above = next(self.network.above(node), None)
        mine = self.network.span[node]
        kept = [] if above is None else [piece for piece in self.pieces[above] if piece[2] in mine]
        more = [
            (rank, self._share(node, rank) - (0 if above is None else self._share(above, rank)))
            for rank in self.order[node]
        ]
        self.pieces[node] = _joined(sorted([*kept, *_filled(_gaps(kept, self.parts), more)]))


def _gaps(pieces: Sequence[Piece], parts: int) -> Iterator[tuple[int, int]]:
    at = 0
    for begin, end, _ in pieces:
        if begin > at:
            yield at, begin
        at = end
    if at < parts:
        yield at, parts


def _filled(gaps: Iterator[tuple[int, int]], amounts: Sequence[tuple[int, int]]) -> Iterator[Piece]:
    """Lay out the amounts (rank, parts) in the gaps from left to right; together they fill them."""
    begin = end = 0
    for rank, amount in amounts:
        while amount:
            if begin == end:
                begin, end = next(gaps)
            taken = min(amount, end - begin)
            yield begin, begin + taken, rank
            begin += taken
            amount -= taken


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    joined: list[Piece] = []
    for begin, end, rank in pieces:
        if joined and joined[-1][1:] == (begin, rank):
            joined[-1] = (joined[-1][0], end, rank)
        else:
            joined.append((begin, end, rank))
    return joined


def whole_numbers(network: Network, shares: Shares, parts: int) -> dict[int, list[int]]:
    """Return the shares as whole numbers of `parts`, which sum to `parts` at every combining node.

    Rounding goes from the root down, so that a rank holds at every level at least what it keeps in later ones.
    """
    whole: dict[int, list[int]] = {}
    for node in network.combining:
        above = next(network.above(node), None)
        span = network.span[node]
        kept = [0] * len(span) if above is None else _slice(whole[above], network.span[above], span)
        wanted = [max(0.0, share * parts - least) for share, least in zip(shares[node], kept, strict=True)]
        more = _apportioned(wanted, parts - sum(kept))
        whole[node] = [least + extra for least, extra in zip(kept, more, strict=True)]
    return whole


def _slice(values: list[int], outer: range, inner: range) -> list[int]:
    return values[inner.start - outer.start : inner.stop - outer.start]


def _apportioned(wanted: Sequence[float], total: int) -> list[int]:
    """Round to whole numbers that sum to `total`, by the method of largest remainders."""
    scale = total / sum(wanted) if sum(wanted) > 0 else 0.0
    exact = [one * scale for one in wanted] if scale else [total / len(wanted)] * len(wanted)
    floors = [math.floor(one + 1e-6) for one in exact]
    by_remainder = sorted(range(len(exact)), key=lambda index: floors[index] - exact[index])
    missing = total - sum(floors)
    for index in by_remainder[:missing] if missing > 0 else by_remainder[missing:] if missing < 0 else ():
        floors[index] += 1 if missing > 0 else -1
    return floors
