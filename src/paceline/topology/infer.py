"""Infer from measurements between machines the tree that explains them.

A transfer from machine i to machine j goes at the slower of i's link up and j's link down. So the least speeds that
explain all pairs are: up, the fastest that a machine sent to any other; down, the fastest that it received from any.
Where a machine's link is faster than all the others', nothing can show it, and it counts as the next fastest. Switches
show in the rates when all machines send at once, see `switches`; a switch whose link limited no transfer then is taken
to be as fast as everything right below it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.topology.defaults import LOCAL
from paceline.topology.discover import Placement, RankFacts, place
from paceline.topology.measured import Matrix, Measured
from paceline.topology.switches import Switch, switches
from paceline.topology.tree import Link
from paceline.topology.units import FASTEST, SLOWEST


@dataclass(frozen=True, slots=True)
class Explanation:
    """The least links that explain what was measured.

    uplinks: of each machine. locals: of the ranks inside each machine. switches: the machines below each switch, and
    its link, the smallest first.
    """

    uplinks: tuple[Link, ...]
    locals: tuple[Link, ...]
    switches: tuple[tuple[frozenset[int], Link], ...]


def infer(facts: Sequence[RankFacts], measured: Measured) -> Placement:
    """Return the tree with the least links that explain what was measured; a single machine is its root."""
    found = explain(measured)
    return place(facts, found.uplinks, found.locals, found.switches)


def explain(measured: Measured) -> Explanation:
    """Return the least links that explain what was measured."""
    locals = _locals(measured)
    own = np.array([link.latency for link in locals])
    inside = np.add.outer(own, own)
    # Latency inside a machine is mostly wake-ups, which vary; it must not account for all latency between machines.
    latency = measured.latency - np.minimum(inside, measured.latency / 2)
    speeds = own_speeds(measured.rate)
    found = switches(measured.loads, alone(speeds), latency)
    nodes = [frozenset([machine]) for machine in range(len(locals))] + [one.machines for one in found]
    # A message that leaves a machine takes no less than one inside it, and both ends have no more than there is.
    least = np.fmin(own, np.fmin.reduce(latency, axis=1) / 2)
    latencies = _latencies(latency, nodes, [min(least[[*node]]) for node in nodes])
    links = tuple(
        Link(_speed(up), _speed(down), _digits(late))
        for (up, down), late in zip([*speeds, *_speeds(found, speeds)], latencies, strict=True)
    )
    below = zip([one.machines for one in found], links[len(locals) :], strict=True)
    return Explanation(links[: len(locals)], tuple(locals), tuple(below))


def own_speeds(rate: Matrix) -> list[tuple[float, float]]:
    """Return (up, down) of each machine's link: the most bytes per second that the machine sent and received.

    rate: as in `Measured`.
    """
    return [(_fastest(rate[machine]), _fastest(rate[:, machine])) for machine in range(len(rate))]


def alone(speeds: Sequence[tuple[float, float]]) -> Matrix:
    """Return an array of (machines, machines) float64: the bytes per second that the links carry from i to j.

    speeds: (up, down) of each machine's link.
    """
    up, down = np.array(speeds).reshape(-1, 2).T
    carried: Matrix = np.minimum.outer(up, down)
    return carried


def _speeds(found: Sequence[Switch], own: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The speeds (up, down) of each switch's link; `found` has the smallest switch first."""
    speeds: dict[frozenset[int], tuple[float, float]] = {
        frozenset([machine]): speed for machine, speed in enumerate(own)
    }
    for one in found:
        inside = [part for part in speeds if part < one.machines]
        right_below = [speeds[part] for part in inside if not any(part < other for other in inside)]
        up, down = (sum(way) for way in zip(*right_below, strict=True))
        speeds[one.machines] = min(one.up, up), min(one.down, down)
    return [speeds[one.machines] for one in found]


def _locals(measured: Measured) -> list[Link]:
    """The link of each machine's ranks; two of them are between two ranks. A single rank gets the median one."""
    links = [
        None if np.isnan(rate) else Link(_speed(rate), _speed(rate), _digits(max(latency, 0.0) / 2))
        for rate, latency in zip(measured.local_rate, measured.local_latency, strict=True)
    ]
    known = sorted((link for link in links if link is not None), key=lambda link: link.up)
    usual = known[len(known) // 2] if known else LOCAL
    return [link or usual for link in links]


def _fastest(rates: Matrix) -> float:
    known = rates[~np.isnan(rates)]
    return float(known.max()) if len(known) else LOCAL.up


def _latencies(between: Matrix, nodes: Sequence[frozenset[int]], least: Sequence[float]) -> list[float]:
    """The latency of the link above each set of machines, given those of pairs, which are the sums of all links that
    are above one of the two alone: least squares, with no link below `least`.

    Messages vary, so that nothing, or less, may be left for a link. It is held at its least then, and the others are
    solved for again.
    """
    below = np.array([[machine in node for machine in range(len(between))] for node in nodes])
    known = [(i, j) for i, j in zip(*np.nonzero(~np.isnan(between)), strict=True) if i != j]
    found = np.array(least)
    if not known:
        return [float(one) for one in found]
    crossed = np.array([below[:, i] != below[:, j] for i, j in known], float)
    left = np.array([between[pair] for pair in known]) - crossed @ found
    free = np.full(len(nodes), True)
    while free.any():
        more = np.linalg.lstsq(crossed[:, free], left, rcond=None)[0]
        if (more >= 0).all():
            found[free] += more
            break
        free[np.flatnonzero(free)[more < 0]] = False
    return [float(one) for one in found]


def _speed(rate: float) -> float:
    """Round a speed, in bits per second, to the digits that a measurement has."""
    return min(max(_digits(8 * rate) / 8, SLOWEST), FASTEST)


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
