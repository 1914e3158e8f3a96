"""Predict what a plan costs on a network: seconds, and bytes on every link each way.

This is the α–β model with shared links. In the reduce-scatter half, a Reduce sends a copy of its range from every
holder but the owner to the owner; in the all-gather half the copies come back. A message loads every link of its path:
upwards from the holder to the common ancestor, downwards from there. A level takes what its busiest link takes, plus
the latency of its longest path, plus the time of the busiest rank for each message after its first. A message waits
only for what its sender must have received for it, so the latency of a plan is that of its longest chain of messages.

Where links let a burst cross at once (`Link.burst`), every half of a level takes that much less time. However, calls
that follow each other never take less than the busiest link needs for all of their bytes.

Where there are more ranks than CPUs that they share (`Network.crowds`), a call never takes less than these CPUs need
for all of its messages, one chunk after the other.

With a codec, messages between machines have so many bytes less on all links of their path, and every pass takes longer
by the time in which its busiest rank encodes and decodes, as if no transfer went on meanwhile and every message were
encoded for itself. Messages inside machines are not encoded.

Levels run one after another, on one chunk of the buffer at a time. The levels of successive chunks overlap, also the
reduce-scatter of one with the all-gather of another: every chunk after the first adds no more than the time that the
busiest link needs for all of its bytes. A buffer of one chunk has a barrier after every level.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from paceline.calibration import plan as fitted
from paceline.plan.chunk import chunk_bytes
from paceline.plan.codecs import Codec
from paceline.plan.ir import Plan
from paceline.plan.load import Load, load_of
from paceline.plan.network import Floats, Network
from paceline.plan.outline import Outline, outline
from paceline.settings.names import NONE
from paceline.topology import Topology

_FOLLOWED = 256
"""Simulate at most this many repeated levels message by message; extrapolate the rest from the last."""


@dataclass(frozen=True, slots=True)
class LevelCost:
    """One level on the whole buffer, which a plan runs `times` times in a row: seconds of each half, and messages."""

    reduce_scatter: float
    """Seconds, without latency, with those of a codec."""
    all_gather: float
    """Seconds, without latency, with those of a codec."""
    latency: float
    """Seconds of one half; part of neither of the above."""
    times: int
    messages: int
    """The number of messages in one half."""
    one_shot: bool = False
    """The level runs in one shot: its only pass is split evenly between the halves."""

    @property
    def seconds(self) -> float:
        """Seconds of both halves, for all repetitions."""
        return self.times * (self.reduce_scatter + self.all_gather + 2 * self.latency)

    @property
    def ways(self) -> list[tuple[float, int]]:
        """(seconds, repetitions) of each half; a level in one shot has a single entry."""
        if self.one_shot:
            return [(self.reduce_scatter + self.all_gather, self.times)]
        return [(self.reduce_scatter, self.times), (self.all_gather, self.times)]


@dataclass(frozen=True, slots=True)
class LinkCost:
    """The link above a node: the bytes that the reduce-scatter half sends up and down (the all-gather half sends them
    the other way round), and the seconds for which both halves keep the link busy."""

    name: str
    kind: str
    up: float
    down: float
    seconds: float
    all_gather: float
    """Seconds for which the all-gather half alone keeps the link busy."""
    headers: float
    """Seconds for which the headers of both halves' messages keep the link busy; part of neither of the above."""

    @property
    def bytes(self) -> float:
        """Bytes of both halves in each direction."""
        return self.up + self.down


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an all-reduce of `nbytes` bytes in chunks of `chunk` bytes.

    `links` leaves out links with all ranks on one side.
    """

    algorithm: str
    nbytes: int
    chunk: int
    levels: tuple[LevelCost, ...]
    links: tuple[LinkCost, ...]
    latency: float
    """Seconds of the longest chain of messages without any bytes, both halves."""
    burst: float
    """Seconds of traffic that every link between machines lets cross at once after a pause."""
    crowded: float = 0.0
    """Seconds for which shared CPUs are busy with the messages of one chunk, both halves."""
    codec: str = NONE
    coding: float = 0.0
    """Seconds in which the busiest CPU encodes and decodes the whole buffer's messages, both halves."""

    @property
    def barrier(self) -> float:
        """Seconds with a barrier after every level."""
        return sum(level.seconds for level in self.levels)

    @property
    def busiest(self) -> LinkCost | None:
        """The link that needs the most time for its bytes; None where no link is used."""
        return max(self.links, key=lambda link: link.seconds, default=None)

    @property
    def seconds(self) -> float:
        """Seconds in chunks: the first passes all levels, the others follow as fast as the busiest link allows."""
        return self.line.seconds(self.nbytes)

    @property
    def line(self) -> Line:
        """The seconds as a function of the buffer's size."""
        ways = [way for level in self.levels for way in level.ways]
        seconds, headers = (self.busiest.seconds, self.busiest.headers) if self.busiest else (0.0, 0.0)
        return self._line(self.latency, ways, seconds + self.coding, headers, self.crowded)

    @property
    def all_gather(self) -> Line:
        """The seconds of the all-gather half alone, as a function of the buffer's size; also those of a broadcast.

        The levels are assumed to wait for each other. With the latency of the longest chain instead, the model would
        prefer trees for 2 KiB broadcasts on 2+2+2 ranks (calls in a row took 68 us each by a tree, 38 us by a chain),
        and rings on few CPUs.
        """
        latency = sum(level.times * level.latency for level in self.levels)
        ways = [(level.all_gather, level.times) for level in self.levels]
        half = ((link.all_gather, link.headers / 2) for link in self.links)
        seconds, headers = max(half, default=(0.0, 0.0))
        return self._line(latency, ways, seconds + self.coding / 2, headers, self.crowded / 2)

    def _line(
        self, latency: float, first: Sequence[tuple[float, int]], rest: float, headers: float, crowded: float
    ) -> Line:
        nbytes = max(1, self.nbytes)
        ways = tuple((seconds / nbytes, times) for seconds, times in first)
        return Line(latency, ways, rest / nbytes, self.chunk, self.burst, headers, crowded)


@dataclass(frozen=True, slots=True)
class Line:
    """Seconds as a function of the buffer's size.

    The first chunk takes `latency` and the `ways`, each shortened by a burst. It never takes less than the busiest link
    needs for its bytes and headers, nor less than shared CPUs need for its messages. Every byte after the first chunk
    takes `rest`.
    """

    latency: float
    """Seconds."""
    ways: tuple[tuple[float, float], ...]
    """(seconds per byte, repetitions) of every pass of the first chunk over the network."""
    rest: float
    """Seconds per byte after the first chunk."""
    chunk: int
    """Bytes."""
    burst: float
    """Seconds that a burst saves in every pass."""
    headers: float = 0.0
    """Seconds for which the headers of a chunk's messages keep the busiest link busy."""
    crowded: float = 0.0
    """Seconds for which shared CPUs are busy with the messages of a chunk."""
    under_way: int = fitted.CHUNKS_UNDER_WAY
    """Chunks that are under way at once."""

    def seconds(self, nbytes: int) -> float:
        """Return the seconds for a buffer of `nbytes` bytes."""
        return self._in_chunks(self.chunk, nbytes)

    def cut(self, nbytes: int) -> Line:
        """Return the same line with the chunk length that pays for a buffer of `nbytes` bytes."""
        chunk, _ = self.cheapest(nbytes)
        if chunk == self.chunk:
            return self
        return replace(self, chunk=chunk, under_way=self.under_way // 2 if chunk > self.chunk else self.under_way)

    def cheapest(self, nbytes: int) -> tuple[int, float]:
        """Return the chunk length that pays for a buffer of `nbytes` bytes, and the seconds with it.

        Chunks are halved once or twice where the first one would otherwise take much of the time, as long as the chunks
        under way keep the links busy until the first is back. Where there are many, they are twice as long with half as
        many under way, because each costs every rank a few wake-ups, as long as these keep the links busy.
        """
        chunk = self.chunk
        if nbytes > 2 * fitted.FEW_CHUNKS * chunk:
            if self._way(2 * chunk) <= self.under_way // 2 * self.rest * 2 * chunk:
                chunk *= 2
            return chunk, self._in_chunks(chunk, nbytes)
        seconds = self._in_chunks(chunk, nbytes)
        while chunk * fitted.SHORTEST_CHUNK_DIVISOR > self.chunk:
            shorter = chunk // 2
            if nbytes <= shorter and seconds > 0:  # one chunk either way
                break
            took = self._in_chunks(shorter, nbytes)
            if took > (1 - fitted.WORTH_SHORTER_CHUNKS) * seconds:
                break
            if self.under_way * self.rest * shorter < fitted.CHUNK_ROUNDS * self.latency:
                break
            chunk, seconds = shorter, took
        return chunk, seconds

    def _in_chunks(self, chunk: int, nbytes: int) -> float:
        within = min(nbytes, chunk)
        first = self._way(within)
        carried = self.rest * within + self.headers if self.burst else 0.0
        alone = max(first, carried) + fitted.NOT_OVERLAPPED * min(first, carried)
        return max(alone, self.crowded) + max(self.rest, self.crowded / chunk) * (nbytes - within)

    def _way(self, nbytes: int) -> float:
        """The seconds in which so many bytes, no more than a chunk, pass all levels alone."""
        burst = self.burst
        # Thousands of these choose the plans of a group: a list is quicker than a generator.
        return self.latency + sum([times * max(0.0, way * nbytes - burst) for way, times in self.ways])


def mean(lines: Sequence[Line]) -> Line:
    """Return the mean of lines that have the same chunk and burst. `lines` must not be empty."""
    parts = ("latency", "rest", "headers", "crowded")
    latency, rest, headers, crowded = (sum(getattr(line, part) for line in lines) / len(lines) for part in parts)
    ways = tuple((way, times / len(lines)) for line in lines for way, times in line.ways)
    return Line(latency, ways, rest, lines[0].chunk, lines[0].burst, headers, crowded)


def cost(
    plan: Plan | Outline,
    topology: Topology | Network,
    nbytes: int,
    chunk: int | None = None,
    codec: Codec | None = None,
) -> Cost:
    """Return the cost of `plan`, whose ranks are those of `topology`, for a buffer of `nbytes` bytes.

    chunk: bytes of a chunk; None lets the network and the buffer's size decide. codec: how float32 is encoded between
    machines; a chunk then holds as many elements more.
    Raises ValueError if the plan is for another number of ranks.
    """
    network = topology if isinstance(topology, Network) else Network(topology)
    lines = plan if isinstance(plan, Outline) else outline(plan)
    if lines.world != network.world:
        raise ValueError(f"the plan is for {lines.world} ranks, the topology has {network.world}")
    up, down = np.zeros(len(network.up)), np.zeros(len(network.up))
    work, ready, coded = np.zeros((3, network.world))
    coding = nbytes * codec.seconds if codec is not None else 0.0
    crossing = np.zeros(len(network.up))
    levels: list[LevelCost] = []
    for step in lines.steps:
        load = load_of(network, step.level, codec.ratio if codec is not None else 1.0)
        done = _after(load, step.times, ready)
        if step.one_shot:  # one half of it in either half
            load = copy(load)
            load.up, load.down, load.latency, load.work = load.up / 2, load.down / 2, load.latency / 2, load.work / 2
            load.crossing, load.coded, done = load.crossing / 2, load.coded / 2, (ready + done) / 2
        ready = done
        up += step.times * load.up
        down += step.times * load.down
        work += step.times * load.work
        crossing += step.times * load.crossing
        coded += step.times * load.coded
        half_coding = coding * network.busiest(load.coded) / 2 if coding else 0.0
        levels.append(
            LevelCost(
                nbytes * float(max((load.up / network.up).max(), (load.down / network.down).max())) + half_coding,
                nbytes * float(max((load.down / network.up).max(), (load.up / network.down).max())) + half_coding,
                load.latency,
                step.times,
                load.messages,
                step.one_shot,
            )
        )
    up, down = nbytes * up, nbytes * down
    busy = (up + down) / np.minimum(network.up, network.down)
    headers = fitted.HEADER_BYTES * crossing / np.minimum(network.up, network.down)
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
    if codec is not None:
        usual = int(usual * codec.ratio)
    whole = Cost(
        lines.name,
        nbytes,
        usual,
        tuple(levels),
        tuple(links),
        2 * float(ready.max()),
        network.burst,
        crowded,
        codec.name if codec is not None else NONE,
        coding * network.busiest(coded) if coding else 0.0,
    )
    return whole if chunk else replace(whole, chunk=whole.line.cut(nbytes).chunk)


def _after(load: Load, times: int, ready: Floats) -> Floats:
    """The seconds at which every rank has what this level sends it in `times` repetitions that begin at `ready`."""
    before = 0.0
    for _ in range(min(times, _FOLLOWED)):
        before = float(ready.max())
        ready = load.after(ready)
    return ready + max(0, times - _FOLLOWED) * (float(ready.max()) - before)
