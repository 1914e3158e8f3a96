"""Measure the machines' own links in a fraction of a second, for ranks that are about to work or are at work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

import numpy as np

from paceline.adapt.measure.contention import loaded
from paceline.adapt.measure.cpu_wait import waited_seconds
from paceline.adapt.measure.links import crowded, of_first_ranks
from paceline.adapt.measure.pairs import latency
from paceline.adapt.measure.schedule import crowds, rounds
from paceline.calibration.measure import (
    FEW_MACHINES,
    LATENCY_ROUNDS,
    MOST_UPLINK_ROUNDS,
    OFTEN,
    ROUND_SECONDS,
    ROUND_TRIPS_AT_START,
)
from paceline.group.group import Group
from paceline.topology.measured import Load, Matrix, Measured


def uplinks(group: Group, machines: Sequence[Sequence[int]], switches: bool) -> Measured:
    """Measure what the first rank of each machine sends and receives while all of them do.

    machines: the ranks of each machine. switches: whether to look also for links that machines share, which takes
    seconds. The insides of machines are not measured. This is a collective; every rank returns the same.
    """
    count = len(machines)
    own = next(number for number, ranks in enumerate(machines) if group.rank in ranks)
    latencies = _latencies(group, machines, own)
    seconds = max(ROUND_SECONDS, 2 * ROUND_TRIPS_AT_START * median(latencies[~np.isnan(latencies)].tolist()))
    times = OFTEN if count <= FEW_MACHINES else 2
    schedule = crowds(count, 1)[: MOST_UPLINK_ROUNDS // times] * times
    begun, waited = time.monotonic(), waited_seconds()
    (load,) = loaded(group, machines, [range(count)], [schedule], seconds, np.inf)
    share = (waited_seconds() - waited) / (time.monotonic() - begun)
    met = np.full((len(schedule), count, count), np.nan)
    for number, (to, arrived) in enumerate(zip(load.to, load.rate, strict=True)):
        met[number, range(count), to] = arrived
    known = ~np.isnan(met).all(axis=0)
    same = met[:, known]
    rate = np.full((count, count), np.nan)
    rate[known] = np.nanmax(same, axis=0)  # a rank that waits for a core only makes a link look slower
    loads = crowded(group, machines, rate, seconds) if switches else ()
    unknown = np.full(count, np.nan)
    shares = of_first_ranks(group, machines, np.array([share]))[:, 0]
    bursts = _bursts(load, count)
    return Measured(rate, latencies, unknown, unknown, loads, waited=shares, bursts=bursts, spread=spread(same))


def spread(rates: Matrix) -> float:
    """Return the factor by which rates of the same pair differ, the median over the pairs.

    rates: array of (rounds, pairs) float64 in bytes per second; nan where a pair did not meet in a round. Pairs of
    which a round measured nothing, because its time was over before TCP had found its rate, do not count; the result
    is infinite if no others are left.
    """
    slowest = np.nanmin(rates, axis=0)
    heard = slowest > 0
    return median((np.nanmax(rates, axis=0)[heard] / slowest[heard]).tolist()) if heard.any() else np.inf


def _bursts(load: Load, count: int) -> Matrix:
    """The median of the bursts of the streams that each machine sent or received; 1 where none is known."""
    found = np.ones(count)
    for machine in range(count):
        mine = (load.to == machine) | (np.arange(count) == machine)
        known = load.bursts[mine & ~np.isnan(load.bursts)]
        if known.size:
            found[machine] = median(known.tolist())
    return found


def _latencies(group: Group, machines: Sequence[Sequence[int]], own: int) -> Matrix:
    found = np.full(len(machines), np.nan)
    for pairs in rounds(len(machines), LATENCY_ROUNDS) if group.rank == machines[own][0] else ():
        for other in (sum(pair) - own for pair in pairs if own in pair):
            found[other] = latency(group, machines[other][0])
    return of_first_ranks(group, machines, found)
