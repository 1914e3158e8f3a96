"""What a plan costs on a network: seconds, and bytes on every link each way.

The α–β model with shared links. In the reduce-scatter half, a Reduce sends a copy of its range from every holder but
the owner to the owner; in the all-gather half they come back. A message loads every link of its path: upwards from
the holder to the common ancestor, downwards from there. A level takes what its busiest link takes, the latency of its
longest path, and what a rank takes for every message after its first. What a level sends waits only for what its
sender has to have for it: latency is that of the longest chain of messages.

Where links let a burst cross at once (`Link.burst`), every half of a level takes so much less; but calls that follow
each other never take less than the busiest link needs for all of their bytes.

Where ranks share fewer CPUs than they are (`Network.crowds`), a call never takes less than these CPUs need for all of
its messages, one chunk after the other.

Levels run one after another, on one chunk of the buffer at a time. The levels of successive chunks overlap, also the
reduce-scatter of one with the all-gather of another: every chunk after the first adds no more than the time that the
busiest link needs for all of its bytes. A buffer of one chunk has a barrier after every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.plan.chunk import chunk_bytes
from paceline.plan.ir import Plan
from paceline.plan.load import Load
from paceline.plan.network import Floats, Network
from paceline.plan.outline import Outline, outline
from paceline.topology import Topology

HEADER_BYTES = 70
"""What a message between machines adds to its bytes on every link: the packet's headers and its own. On the uplink of
1+1+1 ranks 2000 messages of 1000 bytes more were 2 139 000 bytes more."""

_APART = 0.1
"""The share of the shorter one that calls in a row add where a burst lets ways and the next call's bytes overlap. With
it 4 KiB should take 143 us on 2+2+3 ranks and 183 on 1+1+1, and took 139 and 177."""
_SHORTEST = 4
"""Chunks are at least this part of what they are in large buffers."""
_WORTH_IT = 0.05
"""What chunks of half the length must save: every chunk costs every rank CPU time."""
_UNDER_WAY, _ROUNDS = 4, 3
"""So many chunks are, each for up to so many times what its messages take without any bytes."""
_FOLLOWED = 256
"""Of levels that repeat each other so many are followed message by message; the others add what the last one did."""


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
    headers: float
    """Seconds that the headers of both halves' messages keep it busy; part of neither of the above."""

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
    latency: float
    """Seconds that the longest chain of messages takes without any bytes, both halves."""
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
        ways = [way for level in self.levels for way in level.ways]
        seconds, headers = (self.busiest.seconds, self.busiest.headers) if self.busiest else (0.0, 0.0)
        return self._line(self.latency, ways, seconds, headers, self.crowded)

    @property
    def all_gather(self) -> Line:
        """The seconds of the all-gather half alone, for any size: also those of a broadcast.

        Its levels wait for each other. By the longest chain trees would be preferred for 2 KiB broadcasts on 2+2+2
        ranks, which took 68 us a call where calls follow each other, and 38 by a chain; and rings on few CPUs.
        """
        latency = sum(level.times * level.latency for level in self.levels)
        ways = [(level.all_gather, level.times) for level in self.levels]
        half = ((link.all_gather, link.headers / 2) for link in self.links)
        seconds, headers = max(half, default=(0.0, 0.0))
        return self._line(latency, ways, seconds, headers, self.crowded / 2)

    def _line(
        self, latency: float, first: Sequence[tuple[float, int]], rest: float, headers: float, crowded: float
    ) -> Line:
        nbytes = max(1, self.nbytes)
        ways = tuple((seconds / nbytes, times) for seconds, times in first)
        return Line(latency, ways, rest / nbytes, self.chunk, self.burst, headers, crowded)


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds as a function of size: a constant; for the first chunk seconds per byte of every way, and how often that
    comes; and seconds per byte after it. Bursts spare each way so many seconds, but bytes never take less than later,
    with the `headers` of their messages. No chunk takes less than CPUs that ranks share need for its messages
    (`crowded`).
    """

    latency: float
    ways: tuple[tuple[float, float], ...]
    rest: float
    chunk: int
    burst: float
    headers: float = 0.0
    crowded: float = 0.0

    def seconds(self, nbytes: int) -> float:
        """For a buffer of this size."""
        within = min(nbytes, self.chunk)
        first = self.latency + sum(times * max(0.0, way * within - self.burst) for way, times in self.ways)
        carried = self.rest * within + self.headers if self.burst else 0.0
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
    parts = ("latency", "rest", "headers", "crowded")
    latency, rest, headers, crowded = (sum(getattr(line, part) for line in lines) / len(lines) for part in parts)
    ways = tuple((way, times / len(lines)) for line in lines for way, times in line.ways)
    return Line(latency, ways, rest, lines[0].chunk, lines[0].burst, headers, crowded)


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
    work, ready = np.zeros((2, network.world))
    crossing = np.zeros(len(network.up))
    levels: list[LevelCost] = []
    for step in lines.steps:
        load = Load(network, step.level)
        done = _after(load, step.times, ready)
        if step.one_shot:  # one half of it in either half
            load.up, load.down, load.latency, load.work = load.up / 2, load.down / 2, load.latency / 2, load.work / 2
            load.crossing, done = load.crossing / 2, (ready + done) / 2
        ready = done
        up += step.times * load.up
        down += step.times * load.down
        work += step.times * load.work
        crossing += step.times * load.crossing
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
    headers = HEADER_BYTES * crossing / np.minimum(network.up, network.down)
    half = np.maximum(down / network.up, up / network.down)
    links = [
        LinkCost(
            network.name(index),
            node.kind,
            *(float(each[index]) for each in (up, down, busy, half, headers)),
        )
        for index, node in enumerate(network.nodes)
        if network.joins(index)
    ]
    crowded = max((2 * float(work[ranks].sum()) / cpus for ranks, cpus in network.crowds), default=0.0)
    usual = chunk or chunk_bytes(network)
    whole = Cost(lines.name, nbytes, usual, tuple(levels), tuple(links), 2 * float(ready.max()), network.burst, crowded)
    return whole if chunk else replace(whole, chunk=whole.line.cut(nbytes).chunk)


def _after(load: Load, times: int, ready: Floats) -> Floats:
    """When every rank has what this level sends it `times` in a row."""
    before = 0.0
    for _ in range(min(times, _FOLLOWED)):
        before = float(ready.max())
        ready = load.after(ready)
    return ready + max(0, times - _FOLLOWED) * (float(ready.max()) - before)
