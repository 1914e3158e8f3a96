"""From what was measured between machines to the links that explain it.

A transfer from machine i to machine j goes at the slower of i's link up and j's link down. So the least speeds that
explain all pairs are: up, the fastest that a machine sent to anybody; down, the fastest that it received from anybody.
Where a machine's link is faster than all the others', nothing could show it, and it counts as the next fastest.
Switches between the machines are not inferred: all machines are placed below one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.topology.defaults import LOCAL
from paceline.topology.discover import Placement, RankFacts, place
from paceline.topology.tree import Link
from paceline.topology.units import FASTEST, SLOWEST

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured, machines being numbered in the order of their first ranks; nan where nothing was.

    rate[i, j]: bytes per second from machine i to machine j. latency[i, j]: seconds that a small message takes between
    ranks of the two. local_rate[i], local_latency[i]: the same between ranks of machine i.
    """

    rate: Matrix
    latency: Matrix
    local_rate: Matrix
    local_latency: Matrix


def infer(facts: Sequence[RankFacts], measured: Measured) -> Placement:
    """The machines below one switch, or a single machine, with the least links that explain what was measured."""
    locals = _locals(measured)
    count = len(locals)
    own = np.array([link.latency for link in locals])
    inside = np.add.outer(own, own)
    # Inside a machine it is mostly waking up, which varies; that must not use up all of what is between machines.
    latencies = _latencies(measured.latency - np.minimum(inside, measured.latency / 2))
    uplinks = []
    for machine in range(count):
        up, down = _fastest(measured.rate[machine]), _fastest(measured.rate[:, machine])
        uplinks.append(Link(_speed(up), _speed(down), float(f"{latencies[machine]:.3g}")))
    return place(facts, uplinks, locals)


def _locals(measured: Measured) -> list[Link]:
    """Each machine's ranks' own link; two ranks have two between them. A rank alone is taken for an average one."""
    links = [
        None if np.isnan(rate) else Link(_speed(rate), _speed(rate), float(f"{max(latency, 0.0) / 2:.3g}"))
        for rate, latency in zip(measured.local_rate, measured.local_latency, strict=True)
    ]
    known = sorted((link for link in links if link is not None), key=lambda link: link.up)
    usual = known[len(known) // 2] if known else LOCAL
    return [link or usual for link in links]


def _fastest(rates: Matrix) -> float:
    known = rates[~np.isnan(rates)]
    return float(known.max()) if len(known) else LOCAL.up


def _latencies(between: Matrix) -> Matrix:
    """The latency of each machine's link, given those of pairs, which are the sums of two: least squares."""
    count = len(between)
    rows, sums = [], []
    for i, j in zip(*np.nonzero(~np.isnan(between)), strict=True):
        if i != j:
            row = np.zeros(count)
            row[[i, j]] = 1.0
            rows.append(row)
            sums.append(between[i, j])
    if not rows:
        return np.zeros(count)
    solved: Matrix = np.linalg.lstsq(np.array(rows), np.array(sums), rcond=None)[0]
    return np.maximum(solved, 0.0)


def _speed(rate: float) -> float:
    """No more digits, in bits, than a measurement has."""
    return min(max(float(f"{8 * rate:.3g}") / 8, SLOWEST), FASTEST)
