"""Paceline's own plan: weighted, contained, and made for levels that overlap chunk by chunk.

FlexReduce (see `flexreduce`) gives every branch of a node the same part, and a rank's next range may leave its
present one. Here `shares` says how much every rank holds after each level so that the busiest link is done first, and
the ranges are laid out so that each rank only ever gives away: for every item the owner at the root held it at all
levels before. So any shares can be had exactly. From the root down: the root's ranges are laid out first; then every
child's ranks keep theirs, and fill the rest of the buffer with what they hold beyond that.

M machines with uplinks u_i, all else fast, B bytes: T* = B max(1/u_min, 2 (M-1) / sum(u_i)), which no plan beats, and
which this one reaches; the ring takes 2 (n-1)/n B/u_min, FlexReduce 2 (M-1)/M B/u_min.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from paceline.plan.calls import Piece, calls
from paceline.plan.ir import Level, Plan, Reduce
from paceline.plan.network import Network
from paceline.plan.shares import Shares, best_shares, busiest
from paceline.topology import Topology

_LOSS = 1.0001  # rounding may keep the busiest link busy that much longer
_FINEST = 1 << 40
_COMMON = 720720  # divided by 1 to 16


def paceline(topology: Topology) -> Plan:
    """Every rank's ranges lie within those that it had at the level before."""
    network = Network(topology)
    parts, shares = _rounded(network, best_shares(network))
    layout = _Layout(network, parts, shares)
    levels: list[Level] = []
    for _, nodes in network.branches():
        level: list[Reduce] = []
        for node in nodes:
            if len(network.children[node]) > 1:
                level += layout.calls(node)
        if level:
            levels.append(tuple(level))
    return Plan(network.world, "paceline", tuple(levels))


class _Layout:
    """Where every rank's shares lie, in `parts` parts of the buffer."""

    def __init__(self, network: Network, parts: int, shares: dict[int, list[int]]) -> None:
        self.network, self.parts, self.shares = network, parts, shares
        self.order: dict[int, list[int]] = {}
        for node in reversed(network.combining):
            self._sort(node)
        self.pieces: dict[int, list[Piece]] = {}
        for node in network.combining:
            self._place(node)

    def calls(self, node: int) -> Iterator[Reduce]:
        """The Reduces with which the children's pieces become the node's."""
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


def _rounded(network: Network, shares: Shares) -> tuple[int, dict[int, list[int]]]:
    """The shares in the fewest parts of the buffer that make hardly a difference, and how many parts."""
    base = _common_parts(network)
    allowed = busiest(network, shares) * _LOSS
    factor = 1
    while True:
        parts = base * factor
        whole = _whole_numbers(network, shares, parts)
        tried = {node: [share / parts for share in values] for node, values in whole.items()}
        if parts >= _FINEST or busiest(network, tried) <= allowed:
            return parts, whole
        factor = factor * 3 // 2 if factor.bit_count() == 1 and factor > 1 else 1 << factor.bit_length()


def _common_parts(network: Network) -> int:
    """Parts in which all equal cuts of all nodes can be said, if they are not too many."""
    common = 1
    for leaf in network.leaves:
        common = math.lcm(common, math.prod(len(network.children[node]) for node in network.above(leaf)))
        if common > _COMMON:
            return _COMMON
    return common


def _whole_numbers(network: Network, shares: Shares, parts: int) -> dict[int, list[int]]:
    """From the root down, for below every rank must hold at least what it keeps."""
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
