"""The speed of each stream between machines when all streams of a plan flow at once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from paceline.calibration import plan as fitted
from paceline.plan.network import Floats, Integers, Network
from paceline.plan.wire import PlanEntry
from paceline.topology import Link
from paceline.topology.discover import Placement


class StreamRates(NamedTuple):
    """Bytes per second of the streams of one rank; infinite where no link of known speed limits them."""

    inbound: float
    """The rate of each stream into the rank's machine. The machine's link is shared equally by the pairs of ranks that
    send into it in one half."""
    outbound: tuple[float, ...]
    """The rate of the stream to every rank; 0 for those to whom the plan sends nothing."""


def stream_rates(placement: Placement, plans: Mapping[str, Sequence[PlanEntry]], rank: int) -> StreamRates:
    """Return the rates of the streams of `rank` in the all-reduce of large buffers.

    Chunks follow each other so closely that links carry both halves at once. So a stream to another rank has the part
    of every link on its way that its bytes are of all bytes which the plan sends over that link, the least of these.
    All streams over a link together are then no faster than the link, and none is slower than in the time in which
    the busiest link carries the buffer.
    """
    entry = plans["all_reduce"][-1]
    return StreamRates(_inbound(placement, entry, rank), _outbound(placement, entry, rank))


def _inbound(placement: Placement, entry: PlanEntry, rank: int) -> float:
    for machine, places in placement.topology.machines():
        here = {placement.ranks[place] for place in places}
        if rank in here and machine.uplink is not None:
            return machine.uplink.down / max(1, _streams(entry, here))
    return math.inf


def _streams(entry: PlanEntry, here: set[int]) -> int:
    """The pairs of a sender elsewhere and a receiver here, in the half that has more of them."""
    reduces, copies = set[tuple[int, int]](), set[tuple[int, int]]()
    for level in entry[-1]:
        for *_, holders, owner in level:
            if owner in here:
                reduces.update((holder, owner) for holder in holders if holder not in here)
            else:
                copies.update((owner, holder) for holder in holders if holder in here)
    return max(len(reduces), len(copies))


def _outbound(placement: Placement, entry: PlanEntry, rank: int) -> tuple[float, ...]:
    network = Network(placement.topology)
    place_of = np.argsort(placement.ranks)
    ends, shares = _exchanged(entry)
    first, second = place_of[ends]
    carried = np.zeros(len(network.up))
    for above in network.ancestors:
        apart = np.where(above[first] != above[second], shares, 0.0)
        carried += np.bincount(above[first], apart, len(carried)) + np.bincount(above[second], apart, len(carried))
    rates = [0.0] * network.world
    for pair, share in zip(ends.T.tolist(), shares.tolist(), strict=True):
        if rank in pair:
            other = pair[0] + pair[1] - rank
            way = _way(network, *place_of[[rank, other]].tolist())
            rates[other] = min((share / float(carried[link]) * speed for link, speed in way), default=math.inf)
    return tuple(fitted.STREAMS_OF_LINK * rate for rate in rates)


def _exchanged(entry: PlanEntry) -> tuple[Integers, Floats]:
    """The pairs of ranks that exchange something, and the part of the buffer that each sends to the other.

    Returns arrays of (2, pairs) int64 and (pairs,) float64. What goes one way in one half comes back in the other.
    """
    shares = defaultdict[tuple[int, int], float](float)
    for level in entry[-1]:
        for lo, lo_den, hi, hi_den, holders, owner in level:
            for holder in holders:
                if holder != owner and hi * lo_den > lo * hi_den:
                    shares[min(holder, owner), max(holder, owner)] += hi / hi_den - lo / lo_den
    return np.array([*shares], dtype=np.int64).reshape(-1, 2).T, np.array([*shares.values()])


def _way(network: Network, start: int, end: int) -> Iterator[tuple[int, float]]:
    """The links between machines from one place to another, by the nodes below them, with their bytes per second."""
    for rising, falling in network.ancestors[:, [start, end]].tolist():
        if rising != falling:
            if (link := _between_machines(network, rising)) is not None:
                yield rising, link.up
            if (link := _between_machines(network, falling)) is not None:
                yield falling, link.down


def _between_machines(network: Network, node: int) -> Link | None:
    """The link above the node, if it is one between machines."""
    if node < len(network.nodes) and network.nodes[node].kind in ("switch", "machine"):
        return network.nodes[node].uplink
    return None
