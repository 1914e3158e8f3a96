"""The load of one plan level on a network: fractions of the buffer on every link, messages of every rank, seconds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np

from paceline.calibration import plan as fitted
from paceline.plan.ir import Level, Range
from paceline.plan.network import Floats, Integers, Network

_KEPT = 16
"""Reduces of a level up to which its load is kept: different plans have the same small levels."""
_PAIRS = 1 << 22
"""Messages that are processed together, which bounds the memory of the arrays."""


class Load:
    """The load of the reduce-scatter half of a level; the all-gather half is the same in the other direction.

    up, down: arrays of (nodes + 1,) float64, the fractions of the buffer's bytes that cross the link above every node.
    crossing: array of (nodes + 1,) float64, the messages between machines that cross that link in either direction.
    coded: array of (world,) float64, the fraction of the buffer that every rank sends or receives between machines,
    and has to encode or decode where messages are encoded.
    messages: the number of messages of the level.
    work: array of (world,) float64, the seconds of a CPU that every rank needs for its messages where ranks share CPUs.
    latency: seconds of the longest path, and of the busiest rank for its messages after the first.
    """

    def __init__(self, network: Network, level: Level, ratio: float = 1.0) -> None:
        """ratio: bytes of the buffer for each byte of a message between machines, on all links of its path."""
        links = len(network.up)
        self.up, self.down, self.crossing = np.zeros(links), np.zeros(links), np.zeros(links)
        sent, received = np.zeros((2, network.world)), np.zeros((2, network.world))
        self.coded = np.zeros(network.world)
        self.messages = 0
        longest = 0.0
        self._paths: list[tuple[Integers, Integers, Floats]] = []
        for holders, owners, share in _messages(level):
            self.messages += len(share)
            seconds = np.zeros(len(share))
            far = network.machine[holders] != network.machine[owners]
            carried = np.where(far, share / ratio, share)
            for above in network.ancestors[1:]:
                start, end = above[holders], above[owners]
                apart = start != end
                part = np.where(apart, carried, 0.0)
                self.up += np.bincount(start, part, links)
                self.down += np.bincount(end, part, links)
                self.crossing += np.bincount(start[far & apart], minlength=links)
                self.crossing += np.bincount(end[far & apart], minlength=links)
                seconds += np.where(apart, network.latency[start] + network.latency[end], 0.0)
            for kind, which in enumerate((~far, far)):
                sent[kind] += np.bincount(holders[which], minlength=network.world)
                received[kind] += np.bincount(owners[which], minlength=network.world)
            for ends in (holders, owners):
                self.coded += np.bincount(ends[far], share[far], network.world)
            longest = max(longest, float(seconds.max(initial=0.0)))
            self._paths = [(holders, owners, seconds)] if self.messages == len(share) else []
        self.up[-1] = self.down[-1] = self.crossing[-1] = 0
        self._busy = max(_busy(*sent), _busy(*received))
        self._one_more = np.where(received[1] > 0, fitted.MESSAGE_SECONDS, fitted.LOCAL_MESSAGE_SECONDS)
        self.latency = longest + self._busy
        near, far = sent + received
        self.work = fitted.CROWDED_LOCAL_MESSAGE_SECONDS * near + fitted.CROWDED_MESSAGE_SECONDS * far

    def after(self, ready: Floats) -> Floats:
        """Return the seconds at which every rank has what this level sends it.

        ready: array of (world,) float64, the seconds at which every rank has what it sends in this level. The result
        has the same shape.
        """
        if not self._paths:  # too many to keep
            return np.full_like(ready, ready.max() + self.latency)
        ((holders, owners, seconds),) = self._paths
        arrived = np.zeros_like(ready)
        np.maximum.at(arrived, owners, ready[holders] + seconds + self._busy)
        next_one = np.where((ready > 0) & (arrived > 0), ready + self._one_more, ready)
        return np.maximum(arrived, next_one)


_loads: WeakKeyDictionary[Network, dict[tuple[Level, float], Load]] = WeakKeyDictionary()


def load_of(network: Network, level: Level, ratio: float = 1.0) -> Load:
    """Return the load of this level, which is not to be changed; the arguments are those of `Load`."""
    if len(level) > _KEPT:
        return Load(network, level, ratio)
    loads = _loads.get(network)
    if loads is None:
        loads = _loads[network] = {}
    kept = loads.get((level, ratio))
    if kept is None:
        kept = loads[level, ratio] = Load(network, level, ratio)
    return kept


def _busy(near: Floats, far: Floats) -> float:
    """The seconds that the busiest rank takes for the messages after its first."""
    first = np.where(far > 0, fitted.MESSAGE_SECONDS, np.where(near > 0, fitted.LOCAL_MESSAGE_SECONDS, 0.0))
    return float((fitted.LOCAL_MESSAGE_SECONDS * near + fitted.MESSAGE_SECONDS * far - first).max())


def _messages(level: Level) -> Iterator[tuple[Integers, Integers, Floats]]:
    """The messages of a level as arrays (sender, receiver, fraction of the buffer), a bounded number at a time."""
    rest = list(level)
    while rest:
        count = total = 0
        while count < len(rest) and total < _PAIRS:
            total += len(rest[count].holders)
            count += 1
        batch, rest = rest[:count], rest[count:]
        each = np.fromiter((len(step.holders) for step in batch), np.int64, count)
        holders = np.fromiter(chain.from_iterable(step.holders for step in batch), np.int64, total)
        owners = np.repeat(np.fromiter((step.owner for step in batch), np.int64, count), each)
        share = np.repeat(np.fromiter((_share(step.range) for step in batch), float, count), each)
        moving = holders != owners
        yield holders[moving], owners[moving], share[moving]


def _share(part: Range) -> float:
    """The fraction of the buffer; the difference of two Fractions takes three times as long."""
    below, above = part.lo.denominator, part.hi.denominator
    return (part.hi.numerator * below - part.lo.numerator * above) / (below * above)
