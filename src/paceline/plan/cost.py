"""What a plan costs on a network: seconds, and bytes on every link each way.

The α–β model with shared links. In the reduce-scatter half, a Reduce sends a copy of its range from every holder but
the owner to the owner; in the all-gather half they come back. A message loads every link of its path: upwards from
the holder to the common ancestor, downwards from there. A level takes what its busiest link takes, the latency of its
longest path, and what a rank takes for every message after its first.

Where links let a burst cross at once (`Link.burst`), every half of a level takes so much less; but calls that follow
each other never take less than the busiest link needs for all of their bytes.

Where ranks share fewer CPUs than they are (`Network.crowds`), a call never takes less than these CPUs need for all of
its messages, one chunk after the other.

Levels run one after another, on one chunk of the buffer at a time. The levels of successive chunks overlap, also the
reduce-scatter of one with the all-gather of another: every chunk after the first adds no more than the time that the
busiest link needs for all of its bytes. A buffer of one chunk has a barrier after every level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from paceline.plan.chunk import chunk_bytes
from paceline.plan.ir import Level, Plan
from paceline.plan.network import Floats, Integers, Network
from paceline.plan.outline import Outline, outline
from paceline.topology import Topology

MESSAGE_SECONDS = 20e-6
"""What one more message between machines takes of a rank's time, whatever its size: mostly waking up whoever waits."""
LOCAL_MESSAGE_SECONDS = 2e-6
"""And one more within a machine."""

CROWDED_MESSAGE_SECONDS = 8e-6
"""What a message between machines takes of a CPU at its sender, and again at its receiver, where ranks share CPUs.
Measured with eight ranks on two CPUs: 6.3 us where each sends and receives seven at a time, 9 us one by one."""
CROWDED_LOCAL_MESSAGE_SECONDS = LOCAL_MESSAGE_SECONDS / 2
"""And one within a machine: not measured by itself, as both ends together take no more than one more message does."""

_APART = 0.1
"""The share of the shorter one that calls in a row add where a burst lets ways and the next call's bytes overlap. With
it 4 KiB should take 139 us on 2+2+3 ranks and 178 on 1+1+1, and took 142 and 179."""
_SHORTEST = 4
"""Chunks are at least this part of what they are in large buffers."""
_WORTH_IT = 0.05
"""What chunks of half the length must save: every chunk costs every rank CPU time."""
_UNDER_WAY, _ROUNDS = 4, 3
"""So many chunks are, each for up to so many times what its messages take without any bytes."""
_PAIRS = 1 << 22  # messages that are looked at together


@dataclass(frozen=True, slots=True)
class LevelCost:
    """One level, `times` in a row, on the whole buffer: seconds of both halves and how often it comes."""

    reduce_scatter: float
    all_gather: float
    latency: float
    """Of one half; part of neither of the above."""
    times: int
    messages: int
    """Of one half."""
    one_shot: bool = False
    """The halves are those of a single way."""

    @property
    def seconds(self) -> float:
        """Of both halves, all times."""
        return self.times * (self.reduce_scatter + self.all_gather + 2 * self.latency)

    @property
    def ways(self) -> list[tuple[float, int]]:
        """Seconds of each half and how often it comes; of a single way as a whole."""
        if self.one_shot:
            return [(self.reduce_scatter + self.all_gather, self.times)]
        return [(self.reduce_scatter, self.times), (self.all_gather, self.times)]


@dataclass(frozen=True, slots=True)
class LinkCost:
    """The link above a node: bytes that the reduce-scatter half sends up and down it, the all-gather half the other
    way round, and the seconds that both halves keep it busy."""

    name: str
    kind: str
    up: float
    down: float
    seconds: float
    all_gather: float
    """Seconds of that half alone."""

    @property
    def bytes(self) -> float:
        """Of both halves, each way."""
        return self.up + self.down


@dataclass(frozen=True, slots=True)
class Cost:
    """What an all-reduce of `nbytes` bytes costs; links with all ranks on one side are left out."""

    algorithm: str
    nbytes: int
    chunk: int
    levels: tuple[LevelCost, ...]
    links: tuple[LinkCost, ...]
    burst: float
    """Seconds that all links between machines let cross at once after a pause."""
    crowded: float = 0.0
    """Seconds that CPUs which ranks share are busy with the messages of one chunk, both halves."""

    @property
    def barrier(self) -> float:
        """Seconds with a barrier after every level."""
        return sum(level.seconds for level in self.levels)

    @property
    def busiest(self) -> LinkCost | None:
        """The link that needs most time for its bytes."""
        return max(self.links, key=lambda link: link.seconds, default=None)

    @property
    def seconds(self) -> float:
        """Seconds in chunks: the first through all levels, the others as fast as the busiest link takes them."""
        return self.line.seconds(self.nbytes)

    @property
    def line(self) -> Line:
        """The seconds for any size."""
        busiest = max((link.seconds for link in self.links), default=0.0)
        latency = sum(2 * level.times * level.latency for level in self.levels)
        return self._line(latency, [way for level in self.levels for way in level.ways], busiest, self.crowded)

    @property
    def all_gather(self) -> Line:
        """The seconds of the all-gather half alone, for any size: also those of a broadcast."""
        busiest = max((link.all_gather for link in self.links), default=0.0)
        latency = sum(level.times * level.latency for level in self.levels)
        ways = [(level.all_gather, level.times) for level in self.levels]
        return self._line(latency, ways, busiest, self.crowded / 2)

    def _line(self, latency: float, first: Sequence[tuple[float, int]], rest: float, crowded: float) -> Line:
        nbytes = max(1, self.nbytes)
        ways = tuple((seconds / nbytes, times) for seconds, times in first)
        return Line(latency, ways, rest / nbytes, self.chunk, self.burst, crowded)


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds as a function of size: a constant; for the first chunk seconds per byte of every way, and how often that
    comes; and seconds per byte after it. Bursts spare each way so many seconds, but bytes never take less than later.
    No chunk takes less than CPUs that ranks share need for its messages (`crowded`).
    """

    latency: float
    ways: tuple[tuple[float, float], ...]
    rest: float
    chunk: int
    burst: float
    crowded: float = 0.0

    def seconds(self, nbytes: int) -> float:
        """For a buffer of this size."""
        within = min(nbytes, self.chunk)
        first = self.latency + sum(times * max(0.0, way * within - self.burst) for way, times in self.ways)
        carried = self.rest * within if self.burst else 0.0
        alone = max(first, carried) + _APART * min(first, carried)
        return max(alone, self.crowded) + max(self.rest, self.crowded / self.chunk) * (nbytes - within)

    def cut(self, nbytes: int) -> Line:
        """The same in chunks that are worth it for a buffer of this size: half or a quarter as long where the first one
        would else take much of the time, and those under way last until the first is back."""
        line = self
        while line.chunk * _SHORTEST > self.chunk:
            shorter = replace(line, chunk=line.chunk // 2)
            if shorter.seconds(nbytes) > (1 - _WORTH_IT) * line.seconds(nbytes):
                break
            if _UNDER_WAY * shorter.rest * shorter.chunk < _ROUNDS * shorter.latency:
                break
            line = shorter
        return line


def mean(lines: Sequence[Line]) -> Line:
    """Of lines with the same chunk and burst."""
    parts = ("latency", "rest", "crowded")
    latency, rest, crowded = (sum(getattr(line, part) for line in lines) / len(lines) for part in parts)
    ways = tuple((way, times / len(lines)) for line in lines for way, times in line.ways)
    return Line(latency, ways, rest, lines[0].chunk, lines[0].burst, crowded)


def cost(plan: Plan | Outline, topology: Topology | Network, nbytes: int, chunk: int | None = None) -> Cost:
    """The cost of `plan`, whose ranks are those of `topology`, for a buffer of `nbytes` bytes in chunks of `chunk`
    (None: as the network and the size ask for).

    Raises ValueError if the plan is for another number of ranks.
    """
    network = topology if isinstance(topology, Network) else Network(topology)
    lines = plan if isinstance(plan, Outline) else outline(plan)
    if lines.world != network.world:
        raise ValueError(f"the plan is for {lines.world} ranks, the topology has {network.world}")
    up, down = np.zeros(len(network.up)), np.zeros(len(network.up))
    work = np.zeros(network.world)
    levels: list[LevelCost] = []
    for step in lines.steps:
        load = _Load(network, step.level)
        if step.one_shot:  # one half of it in either half
            load.up, load.down, load.latency, load.work = load.up / 2, load.down / 2, load.latency / 2, load.work / 2
        up += step.times * load.up
        down += step.times * load.down
        work += step.times * load.work
        levels.append(
            LevelCost(
                nbytes * float(max((load.up / network.up).max(), (load.down / network.down).max())),
                nbytes * float(max((load.down / network.up).max(), (load.up / network.down).max())),
                load.latency,
                step.times,
                load.messages,
                step.one_shot,
            )
        )
    up, down = nbytes * up, nbytes * down
    busy = (up + down) / np.minimum(network.up, network.down)
    half = np.maximum(down / network.up, up / network.down)
    links = [
        LinkCost(
            network.name(index),
            node.kind,
            *(float(each[index]) for each in (up, down, busy, half)),
        )
        for index, node in enumerate(network.nodes)
        if network.joins(index)
    ]
    crowded = max((2 * float(work[ranks].sum()) / cpus for ranks, cpus in network.crowds), default=0.0)
    usual = chunk or chunk_bytes(network)
    whole = Cost(lines.name, nbytes, usual, tuple(levels), tuple(links), network.burst, crowded)
    return whole if chunk else replace(whole, chunk=whole.line.cut(nbytes).chunk)


class _Load:
    """What the reduce-scatter half of a level puts on the links, as parts of the buffer."""

    def __init__(self, network: Network, level: Level) -> None:
        self.up, self.down = np.zeros(len(network.up)), np.zeros(len(network.up))
        sent, received = np.zeros((2, network.world)), np.zeros((2, network.world))
        self.messages = 0
        longest = 0.0
        for holders, owners, share in _messages(level):
            self.messages += len(share)
            seconds = np.zeros(len(share))
            for above in network.ancestors[1:]:
                start, end = above[holders], above[owners]
                part = np.where(start == end, 0.0, share)
                self.up += np.bincount(start, part, len(self.up))
                self.down += np.bincount(end, part, len(self.down))
                seconds += np.where(start == end, 0.0, network.latency[start] + network.latency[end])
            far = network.machine[holders] != network.machine[owners]
            for kind, which in enumerate((~far, far)):
                sent[kind] += np.bincount(holders[which], minlength=network.world)
                received[kind] += np.bincount(owners[which], minlength=network.world)
            longest = max(longest, float(seconds.max(initial=0.0)))
        self.up[-1] = self.down[-1] = 0
        self.latency = longest + max(_busy(*sent), _busy(*received))
        near, far = sent + received
        self.work = CROWDED_LOCAL_MESSAGE_SECONDS * near + CROWDED_MESSAGE_SECONDS * far


def _busy(near: Floats, far: Floats) -> float:
    """Seconds that the busiest rank takes for the messages after its first."""
    first = np.where(far > 0, MESSAGE_SECONDS, np.where(near > 0, LOCAL_MESSAGE_SECONDS, 0.0))
    return float((LOCAL_MESSAGE_SECONDS * near + MESSAGE_SECONDS * far - first).max())


def _messages(level: Level) -> Iterator[tuple[Integers, Integers, Floats]]:
    """From, to and part of the buffer, a bounded number at a time."""
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
        share = np.repeat(np.fromiter((float(step.range.hi - step.range.lo) for step in batch), float, count), each)
        moving = holders != owners
        yield holders[moving], owners[moving], share[moving]
