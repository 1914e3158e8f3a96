"""Switches between machines, from what machines get when all send at once, and from how late messages are.

A link in the middle of a tree splits the machines into two sides. If it is slower than what one side can send, then
machines of that side hinder each other when they send to the other side, and never when they send among themselves;
and whoever they are, together they get what the link carries. So:

1. candidates: machines that lose clearly less when they send to each other, by average linkage of what a pair loses at
   worst of what its own links carry; with slow machines, which lose nothing anywhere, moved to where they fit;
2. proof: of the rounds in which a side's transfers were hindered, in most of them their sum was the same, the most
   there ever was: that is the speed of the link;
3. what the links that were found do not explain, again; and below each of them, by rounds of its machines alone, in
   which its own link does not count.

A link that never is the narrowest cannot be seen this way, and makes no difference to a plan either. Nor can one above
a single machine be told from that machine's own. Where latencies fall into two classes, as between buildings, they show
the sides too.

D. Rubenstein, J. Kurose, D. Towsley, "Detecting Shared Congestion of Flows via End-to-End Measurement", IEEE/ACM
Transactions on Networking 10(3), 2002, have the idea for two flows; T. Shirai, H. Saito, K. Taura, "A Fast Topology
Inference: A Building Block for Network-aware Parallel Processing", HPDC 2007, and J. Lawrence, X. Yuan, "An MPI Tool
for Automatically Discovering the Switch Level Topologies of Ethernet Clusters", IPDPS 2008, find the tree by latencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.topology.measured import Load, Matrix

Flags = npt.NDArray[np.bool_]

LEAST_MACHINES = 4
"""Of which rounds can tell anything: two on each side."""
_APART = 0.1
"""By so much of a share a group of machines must do better among themselves."""
_HINDERED = 0.9
"""Transfers below this share of what the machines' own links carry are hindered."""
_USUAL = 0.6
"""Quantile of what hindered rounds carried that is the link's speed: in some of them other links hinder more."""
_FULL = 0.75
"""A link that carries this share of its speed is busy: no two measurements are equal."""
_MOSTLY = 0.5
"""Of what a side's transfers lose, so much must be lost when their link is busy."""
_NEWS = 0.25
"""Of what a side's transfers lose, so much must be unexplained by other links."""
_BETTER = 0.02
"""By so much of a link's speed the sums must be explained better to move a machine to its other side."""
_PROVEN, _GOOD = 0.15, 0.03
"""Misfits up to which a split is proven, and is as good as any."""
_LATE_SECONDS, _LATE = 100e-6, 2.0
"""Between sides messages take so much longer, and so many times as long, as within each."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Machines below one switch; bytes per second of its link, infinite where it hindered nobody."""

    machines: frozenset[int]
    up: float = np.inf
    down: float = np.inf


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a link, both ways: its speeds, whom it hinders (a truth value for each transfer), and how far what
    it carried is from what it would carry if it were the only one to hinder anybody, as a share of its speed."""

    machines: frozenset[int]
    speeds: tuple[float, float]
    hinders: tuple[Flags, Flags]
    misfit: float


def switches(loads: Sequence[Load], alone: Matrix, latency: Matrix) -> list[Switch]:
    """The switches whose links can be seen, the smallest first; of any two, one holds the other or they are apart.

    alone[i, j]: what the own links of machines i and j carry from i to j. latency: seconds, nan where unknown.
    """
    found: list[Switch] = []
    for place, load in enumerate(loads):
        for one in below(load, alone):
            fits = all(_nested(one.machines, other.machines) for other in found)
            if fits and not any(_carried_more(one, outer) for outer in loads[:place]):
                found.append(one)
    for machines in _by_latency(latency):
        for side in _sides(Switch(machines), len(alone)):
            if all(_nested(side.machines, other.machines) for other in found):
                found.append(side)
    return sorted(found, key=lambda one: (len(one.machines), min(one.machines)))


def below(load: Load, alone: Matrix) -> list[Switch]:
    """The outermost switches among the machines of `load`, and those inside of one that is too small to be measured
    alone; `alone` is that of `switches`."""
    if len(load.machines) < LEAST_MACHINES or not len(load.to):
        return []
    found: list[Switch] = []
    for one in _by_load(load, alone[np.ix_(load.machines, load.machines)]):
        for side in _sides(one, len(load.machines)):
            if all(_nested(side.machines, other.machines) for other in found):
                found.append(side)
    large = [one.machines for one in found if len(one.machines) >= LEAST_MACHINES]
    return [
        Switch(frozenset(load.machines[machine] for machine in one.machines), one.up, one.down)
        for one in found
        if not any(one.machines < other for other in large)
    ]


def _sides(one: Switch, machines: int) -> list[Switch]:
    """The smaller side of the link, or both."""
    other = Switch(frozenset(range(machines)) - one.machines, one.down, one.up)
    return [side for side in (one, other) if 2 * len(side.machines) <= machines]


def _nested(one: frozenset[int], other: frozenset[int]) -> bool:
    return one < other or other < one or one.isdisjoint(other)


def _carried_more(one: Switch, load: Load) -> bool:
    """Whether these machines once sent or received more than their link carries; then it is not theirs."""
    out, into = load.carried(one.machines)
    return out > one.up / _FULL or into > one.down / _FULL


def _by_load(load: Load, alone: Matrix) -> Iterator[Switch]:
    """The best proven first; then, of what these do not explain, again."""
    transfers = _Transfers(load, alone)
    starts = {
        transfers.gathered(machines, min((within + beyond) / 2, within + _APART / 2))
        for machines, within, beyond in _clusters(transfers.distances, "average")
        if beyond - within >= _APART
    }
    while starts:
        sides = {machines: transfers.refined(machines) for machines in starts}
        proven = [machines for machines, side in sides.items() if transfers.proven(side)]
        if not proven:
            return
        best = min(proven, key=lambda machines: sides[machines].misfit)
        yield Switch(sides[best].machines, *sides[best].speeds)
        for explained, hindered in zip(transfers.explained, sides[best].hinders, strict=True):
            explained |= hindered
        starts.remove(best)


class _Transfers:
    """All transfers of all rounds, as arrays."""

    def __init__(self, load: Load, alone: Matrix) -> None:
        self.rounds, self.machines = load.to.shape
        self.round = np.repeat(np.arange(self.rounds), self.machines)
        self.source = np.tile(np.arange(self.machines), self.rounds)
        self.target = load.to.ravel()
        self.alone = alone[self.source, self.target]
        share = load.rate.ravel() / self.alone
        # What sending and receiving at once costs each machine is no switch's doing.
        best = [share[self.source == machine].max() for machine in range(self.machines)]
        self.alone = self.alone * min(1.0, float(np.median(best)))
        self.rate = np.minimum(load.rate.ravel(), self.alone)
        self.share = self.rate / self.alone
        self.lost = np.where(self.share < _HINDERED, 1 - self.share, 0.0)
        self.explained = np.zeros((2, len(self.lost)), bool)
        """Hindered by a known link that they go up, or down."""
        self.distances = self._distances()

    def _distances(self) -> Matrix:
        """Of each pair, what the worse half of its transfers lost on average."""
        distances = np.full((self.machines, self.machines), np.nan)
        low, high = np.minimum(self.source, self.target), np.maximum(self.source, self.target)
        for i in range(self.machines):
            for j in range(i + 1, self.machines):
                shares = np.sort(self.share[(low == i) & (high == j)])
                half = shares[: (len(shares) + 1) // 2]
                if len(half):
                    distances[i, j] = distances[j, i] = 1 - half.mean()
        # Pairs that never met count as average ones.
        return np.where(
            np.eye(self.machines, dtype=bool), 0.0, np.where(np.isnan(distances), np.nanmean(distances), distances)
        )

    def gathered(self, machines: frozenset[int], most: float) -> frozenset[int]:
        """The smaller side, after those joined these machines who on average lose up to `most` to them: one pair may
        have been lucky, and so taken for neighbours."""
        inside = np.isin(np.arange(self.machines), list(machines))
        lost = self.distances @ inside / np.maximum(1, inside.sum() - inside)
        near = np.where(self.distances.max(axis=1) < _APART, inside, inside | (lost < most))
        if near.sum() <= self.machines - 2:
            inside = near
        smaller = inside if 2 * inside.sum() <= self.machines else ~inside
        return frozenset(map(int, np.flatnonzero(smaller)))

    def refined(self, machines: frozenset[int]) -> _Side:
        """The link that splits about these machines from the others: those that never lose, slow ones mostly, are
        moved as long as that explains the sums better."""
        best = self.side(machines)
        if best.misfit <= _GOOD:
            return best
        slow = np.flatnonzero(self.distances.max(axis=1) < _APART)
        while True:
            moved = [best.machines ^ {int(machine)} for machine in slow]
            tried = [self.side(one) for one in moved if 2 <= len(one) <= self.machines - 2]
            better = min([best, *tried], key=lambda one: one.misfit)
            if not better.misfit <= best.misfit - _BETTER:
                return best
            best = better

    def proven(self, side: _Side) -> bool:
        """Whether machines do clearly better on their side, and the sums say that a link is why."""
        if not np.isfinite(min(side.speeds)) or side.misfit > _PROVEN:
            return False
        inside = np.isin(np.arange(self.machines), list(side.machines))
        source, target = inside[self.source], inside[self.target]
        among = min(self.lost[source & target].mean(), self.lost[~source & ~target].mean())
        return bool(self.lost[source != target].mean() >= among + _APART / 2)

    def side(self, machines: frozenset[int]) -> _Side:
        """The link that splits these machines from the others."""
        inside = np.isin(np.arange(self.machines), list(machines))
        outgoing = inside[self.source] & ~inside[self.target]
        incoming = ~inside[self.source] & inside[self.target]
        up, down = self._link(outgoing, self.explained[0]), self._link(incoming, self.explained[1])
        return _Side(machines, (up[0], down[0]), (up[1], down[1]), (up[2] + down[2]) / 2)

    def _link(self, crossing: Flags, explained: Flags) -> tuple[float, Flags, float]:
        carried = np.bincount(self.round[crossing], self.rate[crossing], self.rounds)
        wanted = np.bincount(self.round[crossing], self.alone[crossing], self.rounds)
        hindered = carried[carried <= _HINDERED * wanted]
        if not len(hindered):
            return np.inf, np.zeros(len(crossing), bool), 1.0
        speed = float(np.quantile(hindered, _USUAL))
        busy = (carried >= _FULL * speed) & (carried <= _HINDERED * wanted)
        hinders = crossing & busy[self.round]
        lost = np.where(crossing, self.lost, 0.0)
        unexplained = np.where(explained, 0.0, lost)
        # Rounds in which other links hinder these transfers say nothing of this one.
        tells = 2 * np.bincount(self.round, unexplained, self.rounds) >= np.bincount(self.round, lost, self.rounds)
        off = np.abs(carried - np.minimum(speed, wanted)) / speed
        misfit = float(off[tells].mean()) if tells.any() else 1.0
        news = unexplained.sum() > _NEWS * lost.sum()
        if not news or unexplained[hinders].sum() < _MOSTLY * unexplained.sum():
            return np.inf, np.zeros(len(crossing), bool), misfit
        return speed, hinders, misfit


def _by_latency(latency: Matrix) -> Iterator[frozenset[int]]:
    count = len(latency)
    off = ~np.eye(count, dtype=bool)
    if count < LEAST_MACHINES or np.isnan(latency[off]).any():
        return
    for machines, _, beyond in _clusters(latency, "single"):
        inside = np.isin(np.arange(count), list(machines))
        same = off & (inside[:, None] == inside)
        most = float(latency[same].max())
        if beyond >= max(most + _LATE_SECONDS, _LATE * most):
            yield machines


def _clusters(distances: Matrix, method: str) -> Iterator[tuple[frozenset[int], float, float]]:
    """Groups with two machines at least inside and outside: their own height and that of what they join into."""
    from scipy.cluster.hierarchy import linkage  # SciPy takes half a second to load
    from scipy.spatial.distance import squareform

    count = len(distances)
    groups = [frozenset([machine]) for machine in range(count)]
    heights = [0.0] * count
    joined: dict[frozenset[int], float] = {}
    symmetric = np.where(np.eye(count, dtype=bool), 0.0, (distances + distances.T) / 2)
    for first, second, height, _ in linkage(squareform(symmetric, checks=False), method):
        parts = groups[int(first)], groups[int(second)]
        joined.update(dict.fromkeys(parts, float(height)))
        groups.append(parts[0] | parts[1])
        heights.append(float(height))
    for group, height in zip(groups, heights, strict=True):
        if 2 <= len(group) <= count - 2:
            yield group, height, joined[group]
