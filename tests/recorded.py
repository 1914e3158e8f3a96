"""Reports of jobs that never ran, of which everything is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.observe.figures import Figures, Group
from paceline.observe.networks import Network
from paceline.observe.profile import Exchange, NamedExchange, Profile
from paceline.observe.report import Report, make
from paceline.observe.trace.clocks import Clocks
from paceline.simulate.links import inside
from paceline.simulate.network import transfer
from paceline.topology import Topology, parse

TWO = parse(
    """
name: two
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 2, uplink: 500 Mbit/s}
"""
)
CHANNEL, OTHER = 77, 78
ERROR = 50_000
"""Nanoseconds within which machines know each other's clocks."""
COPY_RATE = 1e10
"""Bytes per second that each rank copies while all of a machine do; links inside machines are as fast."""
METRIC = 8
"""Bytes of a metric that is averaged now and then."""


def report(
    sizes: Sequence[int],
    computes: Sequence[Sequence[float]],
    *,
    slower: float = 1.0,
    named: bool = False,
    ahead: float = 0.0,
    metrics: bool = False,
    waits: bool = False,
    topology: Topology = TWO,
) -> Report:
    """The report of a job whose rank r computes `computes[step][r]` seconds in a step, and then exchanges `sizes`.

    It submits all but the last of these at equal distances; exchanges take `slower` times what the cost model says,
    one after the other, and begin when all ranks have called. ahead: seconds by which the second machine's clock is.
    metrics: whether a small call comes after every third step. waits: whether a rank waits for each call before it
    goes on.
    """
    network = transfer(inside(topology, lambda _: COPY_RATE))
    world = topology.world
    hosts = [node.name for node, ranks in topology.machines() for _ in ranks]
    exchanges: list[list[Exchange]] = [[] for _ in range(world)]
    requests: list[list[NamedExchange]] = [[] for _ in range(world)]
    now, sequence = 1000.0, 0

    def moment(rank: int, seconds: float) -> int:
        return round((seconds + (ahead if hosts[rank] != hosts[0] else 0.0)) * 1e9)

    def clocks(here: str) -> Clocks:
        at = {host: round(ahead * 1e9) if host != hosts[0] else 0 for host in hosts}
        return Clocks(
            here, {host: (at[host] - at[here] - ERROR, at[host] - at[here] + ERROR) for host in set(hosts) - {here}}
        )

    for step, seconds in enumerate(computes):
        begin = free = now
        at = [now] * world
        for place, nbytes in enumerate(sizes):
            if waits:
                called = [at[rank] + seconds[rank] / len(sizes) for rank in range(world)]
            else:
                called = [begin + seconds[rank] * (place + 1) / len(sizes) for rank in range(world)]
            over = max(free, *called) + slower * network.seconds(nbytes)
            for rank in range(world):
                times = moment(rank, called[rank]), moment(rank, over)
                exchanges[rank].append(Exchange(CHANNEL, sequence, "all_reduce", nbytes, *times))
                if named:
                    issued = moment(rank, max(called))
                    requests[rank].append(
                        NamedExchange(
                            CHANNEL, sequence, f"tensor {place}", "all_reduce", nbytes, times[0], issued, times[1]
                        )
                    )
            free, sequence, at = over, sequence + 1, [over] * world
        if metrics and step % 3 == 2:
            for rank in range(world):
                times = moment(rank, free), moment(rank, free + 1e-3)
                exchanges[rank].append(Exchange(OTHER, step, "all_reduce", METRIC, *times))
        now = free
    figures = [
        Figures(
            rank,
            world,
            hosts[rank],
            100 + rank,
            0,
            10**9,
            policies={CHANNEL: "board"} if named else {},
            clocks=clocks(hosts[rank]),
            groups={channel: Group(f"group {channel}", world) for channel in (CHANNEL, OTHER)},
            profile=Profile(
                exchanges=tuple(exchanges[rank]),
                requests=tuple(requests[rank]),
                fusion_bytes=(1 << 20) if named else 0,
                cycle_seconds=0.005 if named else 0.0,
                cpus=2.0,
                copy_rate=COPY_RATE,
                late_ns=(60_000,) * 20,
            ),
        )
        for rank in range(world)
    ]
    return make(figures, {}, [Network(0, topology)])


def without_profiles(found: Report) -> Report:
    """The same report as an older version has written it."""
    ranks = tuple(replace(rank, figures=replace(rank.figures, profile=None)) for rank in found.ranks)
    return replace(found, ranks=ranks)


def without_network(found: Report) -> Report:
    """The same report as if all of its ranks had been on one machine."""
    return replace(found, topology=f"{{name: one, machine: alpha, ranks: {found.size}}}")
