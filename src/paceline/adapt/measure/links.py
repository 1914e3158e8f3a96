"""Run all measurements of a group: the links of machines one pair at a time, then all at once."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from paceline.adapt.measure.contention import loaded
from paceline.adapt.measure.cpu_wait import waited_seconds
from paceline.adapt.measure.pairs import latency, receive_stream, send_stream
from paceline.adapt.measure.schedule import Round, crowds, packed, rounds
from paceline.calibration.measure import (
    AGAIN_SECONDS,
    BETWEEN_SECONDS,
    CROWD_SECONDS,
    CROWDS_SECONDS,
    ENOUGH_BETWEEN,
    ENOUGH_LATE,
    ENOUGH_WITHIN,
    LEAST_ROUNDS,
    LONGEST_ROUND,
    LONGEST_STREAM_SECONDS,
    LONGEST_WITHIN_SECONDS,
    MOST_ROUNDS,
    ROUNDS_AGAIN,
    SHORTEST_STREAM_SECONDS,
    WITHIN_SECONDS,
)
from paceline.group.group import Group
from paceline.topology.infer import alone, own_speeds
from paceline.topology.judge import slow_paths
from paceline.topology.measured import Load, Matrix, Measured
from paceline.topology.switches import LEAST_MACHINES, below

_MOST_IN_CROWDS = MOST_ROUNDS + 1
"""Machines up to which switches are looked for."""


def measure(group: Group, machines: Sequence[Sequence[int]]) -> Measured:
    """Measure between machines, from the first rank of each to the first ranks of others, and within each.

    machines: the ranks of each machine. This is a collective; every rank returns the same, in less than a minute.
    """
    count = len(machines)
    own = next(number for number, ranks in enumerate(machines) if group.rank in ranks)
    within = np.array(_within(group, machines[own]))
    group.barrier()
    begun, waited = time.monotonic(), waited_seconds()
    schedule = rounds(count, MOST_ROUNDS)
    rate, latencies = _between(group, machines, own, schedule, BETWEEN_SECONDS)
    # A pair that was slow because of momentary noise is fast the second time.
    again = packed(slow_paths(rate), ROUNDS_AGAIN)
    if again:
        second, _ = _between(group, machines, own, again, AGAIN_SECONDS)
        rate = np.fmax(rate, second)
    local = of_first_ranks(group, machines, within)
    loads = crowded(group, machines, rate, LONGEST_ROUND)
    share = (waited_seconds() - waited) / (time.monotonic() - begun)
    shares = of_first_ranks(group, machines, np.array([share]))[:, 0]
    return Measured(rate, latencies, local[:, 0], local[:, 1], loads, waited=shares)


def crowded(group: Group, machines: Sequence[Sequence[int]], rate: Matrix, longest: float) -> tuple[Load, ...]:
    """Measure all machines at once, then those below each switch that this shows, and so on down.

    rate: as in `Measured`. longest: the most seconds of a round. The result is empty where there are too few machines,
    or too many. This is a collective; every rank returns the same.
    """
    if not LEAST_MACHINES <= len(machines) <= _MOST_IN_CROWDS:
        return ()
    carried = alone(own_speeds(rate))
    found: list[Load] = []
    parts: list[list[int]] = [list(range(len(machines)))]
    left, end = CROWD_SECONDS, time.monotonic() + CROWDS_SECONDS
    while parts:
        schedules = [crowds(len(part), LEAST_ROUNDS) for part in parts]
        seconds = min(longest, left / max(map(len, schedules)))
        loads = loaded(group, machines, parts, schedules, seconds, end)
        found += loads
        parts = _next(group, len(machines), loads, carried)
        left /= 2
    return tuple(found)


def _next(group: Group, machines: int, loads: Sequence[Load], carried: Matrix) -> list[list[int]]:
    """The machines below each switch that these rounds show, if they are enough. Rank 0 decides for all."""
    part_of = np.full(machines, -1)
    if group.rank == 0:
        switches = [one.machines for load in loads for one in below(load, carried)]
        for number, one in enumerate(one for one in switches if len(one) >= LEAST_MACHINES):
            part_of[list(one)] = number
    group.broadcast(part_of, 0)
    return [np.flatnonzero(part_of == number).tolist() for number in range(int(part_of.max()) + 1)]


def _within(group: Group, ranks: Sequence[int]) -> tuple[float, float]:
    """The best rate and latency between the first rank and the others; nan where it is alone.

    The best ones count because all ranks share the machine's memory, and a slower pair has waited for a core.
    """
    found = []
    seconds = min(WITHIN_SECONDS / (2 * len(ranks)), LONGEST_WITHIN_SECONDS)
    for rank in ranks[1:]:
        if group.rank == ranks[0]:
            delay = latency(group, rank)
            send_stream(group, rank, seconds, ENOUGH_WITHIN)
            found.append((receive_stream(group, rank), delay))
        elif group.rank == rank:
            latency(group, ranks[0])
            receive_stream(group, ranks[0])
            send_stream(group, ranks[0], seconds, ENOUGH_WITHIN)
    if not found:
        return np.nan, np.nan
    return max(rate for rate, _ in found), min(delay for _, delay in found)


def _between(
    group: Group,
    machines: Sequence[Sequence[int]],
    own: int,
    schedule: Sequence[Round],
    seconds: float,
) -> tuple[Matrix, Matrix]:
    """The rates and latencies of the pairs in `schedule`, within about `seconds`; every rank returns the same."""
    end = time.monotonic() + seconds
    left = 2 * len(schedule)  # streams; each may take 1.5 times as long as intended
    rates, latencies = np.full((2, len(machines)), np.nan)  # from each machine to this one
    for pairs in schedule if group.rank == machines[own][0] else ():
        pair = next((pair for pair in pairs if own in pair), None)
        if pair is None:
            left -= 2
            continue
        other = pair[1] if own == pair[0] else pair[0]
        peer = machines[other][0]
        latencies[other] = latency(group, peer)  # after this, both ranks are here
        for sender in pair:
            if own == sender:
                meant = min((end - time.monotonic()) / (1.5 * left), LONGEST_STREAM_SECONDS)
                late = meant < SHORTEST_STREAM_SECONDS
                enough = ENOUGH_LATE if late else ENOUGH_BETWEEN
                send_stream(group, peer, max(meant, SHORTEST_STREAM_SECONDS), enough)
            else:
                rates[other] = receive_stream(group, peer)
            left -= 1
    return (
        of_first_ranks(group, machines, rates).T.copy(),
        of_first_ranks(group, machines, latencies),
    )


def of_first_ranks(group: Group, machines: Sequence[Sequence[int]], mine: Matrix) -> Matrix:
    """Return the row `mine` of each machine's first rank, as an array of (machines, len(mine)) float64.

    This is a collective; every rank returns the same.
    """
    everyone = np.empty((group.size, len(mine)))
    group.all_gather(everyone, mine)
    return everyone[[ranks[0] for ranks in machines]]
