"""From shares to ranges: where in the buffer lies what a rank should hold after each level.

From the root down: its ranks' final ranges are laid out first; then the ranks below every child keep theirs, and fill
the rest of the buffer with what they hold beyond that. So every owner held its range at all levels before, and any
shares can be had exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from paceline.plan.calls import Piece, calls
from paceline.plan.ir import Level, Plan, Reduce
from paceline.plan.network import Network
from paceline.plan.shares import Shares


class Layout:
    """Where every rank's shares lie, in `parts` parts of the buffer.

    `order` is that of the ranks' final ranges; without it, FlexReduce's.
    """

    def __init__(
        self, network: Network, parts: int, shares: dict[int, list[int]], order: Sequence[int] | None = None
    ) -> None:
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
        """Level by level, every node's children's pieces become the node's."""
        levels: list[Level] = []
        for _, nodes in self.network.branches():
            level = tuple(call for node in nodes for call in self._calls(node))
            if level:
                levels.append(level)
        return Plan(self.network.world, name, tuple(levels))

    def _calls(self, node: int) -> Iterable[Reduce]:
        if len(self.network.children[node]) < 2:
            return ()
        return calls([self._pieces_of(child) for child in self.network.children[node]], self.pieces[node], self.parts)

    def _share(self, node: int, rank: int) -> int:
        return self.shares[node][rank - self.network.span[node].start]

    def _below(self, child: int) -> int | None:
        """The node that combines for this child: itself or the first below it; None for a single rank."""
        while len(self.network.children[child]) == 1:
            child = self.network.children[child][0]
        return child if self.network.children[child] else None

    def _pieces_of(self, child: int) -> list[Piece]:
        node = self._below(child)
        return [(0, self.parts, self.network.span[child].start)] if node is None else self.pieces[node]

    def _sort(self, node: int) -> None:
        """FlexReduce's order: by where the ranks' shares in the child would end, laid out in the child's order."""
        ends: list[tuple[int, int, int]] = []
        for child in self.network.children[node]:
            below = self._below(child)
            if below is None:
                ends.append((self.parts, 0, self.network.span[child].start))
                continue
            at = 0
            for rank in self.order[below]:
                ends.append((at + self._share(below, rank), at, rank))
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
    """The amounts in their order, from left to right; together they fill the gaps."""
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
    """The shares in whole parts of the buffer, from the root down: below, a rank holds at least what it keeps."""
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
    """Whole numbers that sum to `total`, each as near to what is wanted as largest remainders allow."""
    scale = total / sum(wanted) if sum(wanted) > 0 else 0.0
    exact = [one * scale for one in wanted] if scale else [total / len(wanted)] * len(wanted)
    floors = [math.floor(one + 1e-6) for one in exact]
    by_remainder = sorted(range(len(exact)), key=lambda index: floors[index] - exact[index])
    missing = total - sum(floors)
    for index in by_remainder[:missing] if missing > 0 else by_remainder[missing:] if missing < 0 else ():
        floors[index] += 1 if missing > 0 else -1
    return floors
