"""Find the switches between machines from the speeds at which all machines send at once, and from latencies.

A link in the middle of a tree splits the machines into two sides. If it is slower than what one side can send, the
machines of that side slow each other down when they send to the other side, and never when they send among themselves.
Whichever of them send, they share the speed of the link. The search therefore has three steps:

1. Candidates are groups of machines that lose clearly less when they send to each other. They come from average linkage
   of the share of its own links' speed that a pair loses at worst. Slow machines, which lose nothing anywhere, are
   moved to the side where they fit.
2. A candidate is proven if, in most rounds that slowed its transfers down, these had the same sum, the largest that was
   ever seen. This sum is the speed of the link.
3. Both steps are repeated for what the links found so far do not explain, and below each of them, in rounds of its own
   machines, where its own link does not count.

A link that is never the narrowest cannot be seen this way, but it makes no difference to a plan either. A link above a
single machine cannot be distinguished from that machine's own. Where latencies fall into two classes, as between
buildings, they show the sides too.

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

from paceline.calibration import topology as fitted
from paceline.topology.measured import Load, Matrix

Flags = npt.NDArray[np.bool_]

LEAST_MACHINES = 4
"""The fewest machines whose rounds can show a switch: two on each side."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The machines below a switch, and the bytes per second of its link; infinite where it never limited a transfer."""

    machines: frozenset[int]
    up: float = np.inf
    down: float = np.inf


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a link.

    speeds: bytes per second up and down. hinders: for each direction, whether the link slows each transfer down.
    misfit: the mean difference between what the link carried and what it would carry if it were the only limit, as a
    fraction of its speed.
    """

    machines: frozenset[int]
    speeds: tuple[float, float]
    hinders: tuple[Flags, Flags]
    misfit: float


def switches(loads: Sequence[Load], alone: Matrix, latency: Matrix) -> list[Switch]:
    """Return the switches whose links can be seen, the smallest first; any two are nested or disjoint.

    loads: measurements with the widest first. alone: array of (machines, machines) float64, the bytes per second that
    the own links of machines i and j carry from i to j. latency: seconds, in an array of the same shape, nan where
    unknown.
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
    """Return the outermost switches among the machines of `load`.

    Switches inside one that has too few machines to be measured by itself are in the result too. alone: the array that
    `switches` takes.
    """
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
    """The smaller side of the link, or both sides if they are equally large."""
    other = Switch(frozenset(range(machines)) - one.machines, one.down, one.up)
    return [side for side in (one, other) if 2 * len(side.machines) <= machines]


def _nested(one: frozenset[int], other: frozenset[int]) -> bool:
    return one < other or other < one or one.isdisjoint(other)


def _carried_more(one: Switch, load: Load) -> bool:
    """Return whether these machines once sent or received more than the link carries, so that it cannot be theirs."""
    out, into = load.carried(one.machines)
    return out > one.up / fitted.FULL or into > one.down / fitted.FULL


def _by_load(load: Load, alone: Matrix) -> Iterator[Switch]:
    """The best proven switch, then the best for what it does not explain, and so on."""
    transfers = _Transfers(load, alone)
    starts = {
        transfers.gathered(machines, min((within + beyond) / 2, within + fitted.APART / 2))
        for machines, within, beyond in _clusters(transfers.distances, "average")
        if beyond - within >= fitted.APART
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
        # No switch is to blame for what it costs a machine to send and receive at once.
        best = [share[self.source == machine].max() for machine in range(self.machines)]
        self.alone = self.alone * min(1.0, float(np.median(best)))
        self.rate = np.minimum(load.rate.ravel(), self.alone)
        self.share = self.rate / self.alone
        self.lost = np.where(self.share < fitted.HINDERED, 1 - self.share, 0.0)
        self.explained = np.zeros((2, len(self.lost)), bool)
        """For each direction, whether a known link slows each transfer down."""
        self.distances = self._distances()

    def _distances(self) -> Matrix:
        """The mean share that the worse half of each pair's transfers lost."""
        distances = np.full((self.machines, self.machines), np.nan)
        low, high = np.minimum(self.source, self.target), np.maximum(self.source, self.target)
        for i in range(self.machines):
            for j in range(i + 1, self.machines):
                shares = np.sort(self.share[(low == i) & (high == j)])
                half = shares[: (len(shares) + 1) // 2]
                if len(half):
                    distances[i, j] = distances[j, i] = 1 - half.mean()
        # Pairs that never exchanged anything count as average ones.
        return np.where(
            np.eye(self.machines, dtype=bool), 0.0, np.where(np.isnan(distances), np.nanmean(distances), distances)
        )

    def gathered(self, machines: frozenset[int], most: float) -> frozenset[int]:
        """The smaller side, after machines that on average lose at most `most` to these machines have joined them.

        A single pair may have been lucky and look like neighbours, so averages decide.
        """
        inside = np.isin(np.arange(self.machines), list(machines))
        lost = self.distances @ inside / np.maximum(1, inside.sum() - inside)
        near = np.where(self.distances.max(axis=1) < fitted.APART, inside, inside | (lost < most))
        if near.sum() <= self.machines - 2:
            inside = near
        smaller = inside if 2 * inside.sum() <= self.machines else ~inside
        return frozenset(map(int, np.flatnonzero(smaller)))

    def refined(self, machines: frozenset[int]) -> _Side:
        """The link that splits about these machines from the others.

        Machines that never lose, which are mostly slow ones, change sides as long as that explains the sums better.
        """
        best = self.side(machines)
        if best.misfit <= fitted.GOOD:
            return best
        slow = np.flatnonzero(self.distances.max(axis=1) < fitted.APART)
        while True:
            moved = [best.machines ^ {int(machine)} for machine in slow]
            tried = [self.side(one) for one in moved if 2 <= len(one) <= self.machines - 2]
            better = min([best, *tried], key=lambda one: one.misfit)
            if not better.misfit <= best.misfit - fitted.BETTER:
                return best
            best = better

    def proven(self, side: _Side) -> bool:
        """Return whether machines lose clearly less on their own side, and the sums show that a link is the cause."""
        if not np.isfinite(min(side.speeds)) or side.misfit > fitted.PROVEN:
            return False
        inside = np.isin(np.arange(self.machines), list(side.machines))
        source, target = inside[self.source], inside[self.target]
        among = min(self.lost[source & target].mean(), self.lost[~source & ~target].mean())
        return bool(self.lost[source != target].mean() >= among + fitted.APART / 2)

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
        hindered = carried[carried <= fitted.HINDERED * wanted]
        if not len(hindered):
            return np.inf, np.zeros(len(crossing), bool), 1.0
        speed = float(np.quantile(hindered, fitted.USUAL))
        busy = (carried >= fitted.FULL * speed) & (carried <= fitted.HINDERED * wanted)
        hinders = crossing & busy[self.round]
        lost = np.where(crossing, self.lost, 0.0)
        unexplained = np.where(explained, 0.0, lost)
        # Rounds in which other links slow these transfers down reveal nothing about this link.
        tells = 2 * np.bincount(self.round, unexplained, self.rounds) >= np.bincount(self.round, lost, self.rounds)
        off = np.abs(carried - np.minimum(speed, wanted)) / speed
        misfit = float(off[tells].mean()) if tells.any() else 1.0
        news = unexplained.sum() > fitted.NEWS * lost.sum()
        if not news or unexplained[hinders].sum() < fitted.MOSTLY * unexplained.sum():
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
        if beyond >= max(most + fitted.LATE_SIDE_SECONDS, fitted.LATE_SIDE * most):
            yield machines


def _clusters(distances: Matrix, method: str) -> Iterator[tuple[frozenset[int], float, float]]:
    """Clusters with at least two machines inside and outside, with their own height and that of their parent."""
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
