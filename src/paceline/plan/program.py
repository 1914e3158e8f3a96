"""The linear program for the shares of `paceline.plan.shares`, solved with SciPy's HiGHS.

Ranks that the network does not tell apart get equal shares, because averaging over them makes no link's load worse. So
only one of several equal siblings becomes a variable, and 10 000 ranks in equal machines are as easy as 10.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from paceline.plan.bound import bound
from paceline.plan.network import Floats, Network

Row = dict[int, float]
"""The coefficients of a row, by column."""

_SLACK = 1 + 1e-5
"""A factor on the least time, above HiGHS's tolerances: with a tenth of this slack, HiGHS called two of 2336 random
networks infeasible."""


class _Infeasible(RuntimeError):
    pass


def programmed_shares(network: Network) -> dict[int, list[float]]:
    """Return the shares that keep the busiest link busy for the least time, and among these the least level by level.

    The result maps every combining node to the fractions of its ranks, in order; they sum to 1.
    """
    kinds = _Kinds(network)
    found = _solve(_constraints(network, kinds), len(kinds.columns))
    return {
        node: [found[kinds.column(network.leaves[rank], node)] for rank in network.span[node]]
        for node in network.combining
    }


class _Kinds:
    """Siblings with equal links and equal subtrees are of one kind, and the first of them represents all.

    There is one variable for each kind of rank and each combining node above it.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self.first = [0] * len(network.nodes)
        """The representative of every node, once equal nodes above it are taken for one."""
        self.below: dict[int, dict[int, int]] = {}
        """For every representative, the number of its children of each kind."""
        self.columns: dict[tuple[int, int], int] = {}
        looks = self._looks()
        for node, children in enumerate(network.children):
            kinds = self._by_looks(self.first[node], looks)
            for child in children:
                self.first[child] = kinds[looks[child]]
        for node in sorted(set(self.first)):
            counts = self.below.setdefault(node, {})
            for child in network.children[node]:
                counts[self.first[child]] = counts.get(self.first[child], 0) + 1
            if not counts:
                for above in network.above(node):
                    self.columns[node, above] = len(self.columns)

    def column(self, leaf: int, node: int) -> int:
        """The variable for the fraction that this rank holds after this node has combined."""
        return self.columns[self.first[leaf], self.first[node]]

    def held(self, link: int, node: int) -> Row:
        """A(link, node): the fraction that the ranks below `link` hold after `node` has combined."""
        row: Row = defaultdict(float)
        todo = [(link, 1)]
        while todo:
            at, count = todo.pop()
            if not self.below[at]:
                row[self.columns[at, node]] += count
            todo += [(kind, count * many) for kind, many in self.below[at].items()]
        return row

    def _looks(self) -> list[int]:
        """Number the nodes so that those with equal links and equal subtrees have equal numbers."""
        network = self.network
        numbers: dict[object, int] = {}
        looks = [0] * len(network.nodes)
        for node in range(len(network.nodes) - 1, -1, -1):
            children = tuple(sorted(looks[child] for child in network.children[node]))
            key = (float(network.up[node]), float(network.down[node]), children)
            looks[node] = numbers.setdefault(key, len(numbers))
        return looks

    def _by_looks(self, node: int, looks: list[int]) -> dict[int, int]:
        kinds: dict[int, int] = {}
        for child in self.network.children[node]:
            kinds.setdefault(looks[child], child)
        return kinds


class _Constraints:
    """Rows whose columns are the shares, the time of the busiest link, and one time for each level and half."""

    def __init__(self, shares: int, levels: int) -> None:
        self.busiest = shares
        self.width = shares + 1 + 2 * levels
        self.wholes: list[Row] = []  # = 1
        self.limits: list[tuple[Row, float]] = []  # <= the number
        self.level_limits: list[tuple[Row, float]] = []

    def level(self, number: int, half: int) -> int:
        return self.busiest + 1 + 2 * number + half


def _constraints(network: Network, kinds: _Kinds) -> _Constraints:
    stand_ins = [node for node in network.combining if node in kinds.below]
    depths = sorted({network.depth[node] for node in stand_ins})
    rows = _Constraints(len(kinds.columns), len(depths))
    rows.wholes = [kinds.held(node, node) for node in stand_ins]
    unit = bound(network, 1).seconds  # makes the least possible time about 1
    for link in kinds.below:
        up, down = float(network.up[link]) * unit, float(network.down[link]) * unit
        before: Row = {}
        fixed = 0
        total: Row = defaultdict(float, {rows.busiest: -min(up, down)})
        for node in network.above(link):
            held = kinds.held(link, node)
            # A rank never gains: after this node it holds at most what it held before.
            if not kinds.below[link] and before:
                rows.limits.append((_sum(held, before, -1.0), 0.0))
            if network.joins(link):
                copies = 1 if before else network.copies(link, node)
                constant = 0 if before else copies
                outgoing = _sum(before, held, -copies)
                incoming = _sum({}, held, len(network.parts[node]) - copies)
                for row in (outgoing, incoming):
                    for column, factor in row.items():
                        total[column] += factor
                level = depths.index(network.depth[node])
                for half, speeds in enumerate(((up, down), (down, up))):
                    time = rows.level(level, half)
                    rows.level_limits.append(({**outgoing, time: -speeds[0]}, -constant))
                    rows.level_limits.append(({**incoming, time: -speeds[1]}, 0.0))
                fixed += constant
            before = held
        if network.joins(link):
            rows.limits.append((total, -fixed))
    return rows


def _sum(first: Row, second: Row, factor: float) -> Row:
    row: Row = defaultdict(float, first)
    for column, value in second.items():
        row[column] += factor * value
    return row


def _solve(rows: _Constraints, shares: int) -> Floats:
    bounds = [(0.0, 1.0)] * shares + [(0.0, np.inf)] * (rows.width - shares)
    goal = np.zeros(rows.width)
    goal[rows.busiest] = 1
    found = _run(goal, rows.limits, rows, bounds)
    bounds[rows.busiest] = (0.0, found[rows.busiest] * _SLACK)
    goal = np.zeros(rows.width)
    goal[rows.busiest + 1 :] = 1
    with suppress(_Infeasible):  # only within HiGHS's tolerances; the shares found first are good enough
        found = _run(goal, rows.limits + rows.level_limits, rows, bounds)
    return np.clip(found[:shares], 0, 1)


def _run(
    goal: Floats, limits: list[tuple[Row, float]], rows: _Constraints, bounds: list[tuple[float, float]]
) -> Floats:
    result = linprog(
        goal,
        A_ub=_matrix([row for row, _ in limits], rows.width),
        b_ub=[limit for _, limit in limits],
        A_eq=_matrix(rows.wholes, rows.width),
        b_eq=np.ones(len(rows.wholes)),
        bounds=bounds,
        method="highs",
    )
    if result.status != 0:
        raise _Infeasible(f"HiGHS found no shares: {result.message}")  # equal shares are always feasible
    return np.asarray(result.x)


def _matrix(rows: list[Row], width: int) -> csr_array:
    lengths = [len(row) for row in rows]
    columns = [column for row in rows for column in row]
    values = [value for row in rows for value in row.values()]
    return csr_array((values, columns, np.concatenate(([0], np.cumsum(lengths)))), shape=(len(rows), width))
