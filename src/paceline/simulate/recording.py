"""The run of a job as its report has it: what every rank called, on one clock, and the steps that the calls make up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from paceline.observe.profile import NamedExchange, Profile
from paceline.observe.report import Report
from paceline.observe.trace.clocks import clocks
from paceline.simulate.recorded import LEAST_STEPS, Call, Key, calls_of, steps_of
from paceline.topology import Topology, parse


@dataclass(frozen=True, slots=True)
class Span:
    """Something that a rank carried out at once, with seconds on a clock that all ranks share."""

    begin: float
    end: float
    nbytes: int


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of all ranks, and the newest steps that all of them have shown.

    named: whether they are named requests. calls: by rank, those that can be part of a step. rows: the calls of each
    step, the oldest step first; the first one only says when the second one begins. spans: by rank, what was carried
    out at once: batches of named requests, or calls. profiles: by rank.
    """

    topology: Topology
    named: bool
    calls: tuple[Mapping[Key, Call], ...]
    rows: tuple[tuple[Key, ...], ...]
    spans: tuple[Mapping[tuple[int, int], Span], ...]
    profiles: tuple[Profile, ...]


def recording(report: Report, where: str) -> Recording:
    """Return what a report shows of its job's steps. where: the report's file, for errors.

    Raises ValueError, with one sentence, for a report that does not show the steps of all ranks.
    """
    if report.missing:
        rank, why = min(report.missing.items())
        raise ValueError(f"{where} is of a run that did not end well: rank {rank} gave no figures ({why:.200})")
    profiles = [rank.figures.profile for rank in report.ranks if rank.figures.profile is not None]
    if len(profiles) < report.size or not report.topology:
        raise ValueError(f"{where} does not say when ranks made their calls; record a run with this Paceline")
    if report.size < 2:
        raise ValueError(f"{where} is of one rank, which exchanges nothing; record a run of two ranks or more")
    shifts = _shifts(report)
    named = bool(profiles[0].requests) and _carry(profiles[0])
    calls = [
        {call.key: call for call in calls_of(profile, shift, named)}
        for profile, shift in zip(profiles, shifts, strict=True)
    ]
    begins = [moment / 1e9 - shifts[0] for moment in profiles[0].steps_ns]
    rows = steps_of(list(calls[0].values()), named, begins)
    rows = [row for row in rows if all(key in one for one in calls for key in row)]
    network, rows = _on_one_network(report, rows, calls[0], shifts[0])
    if len(rows) <= LEAST_STEPS:
        raise ValueError(
            f"{where} shows {max(0, len(rows) - 1)} whole steps; at least {LEAST_STEPS} with the same calls are needed"
        )
    channels = {key[0] for key in rows[0]}
    return Recording(
        topology=parse(network),
        named=named,
        calls=tuple(calls),
        rows=tuple(map(tuple, rows)),
        spans=tuple(_spans(profile, shift, named, channels) for profile, shift in zip(profiles, shifts, strict=True)),
        profiles=tuple(profiles),
    )


def _on_one_network(
    report: Report, rows: list[list[Key]], calls: Mapping[Key, Call], shift: float
) -> tuple[str, list[list[Key]]]:
    """Return the newest network of the job in which enough steps were made, and these steps.

    calls: those of the first rank, whose clock is ahead by `shift` seconds.
    """
    networks = [(one.since_ns, one.topology) for one in report.earlier] + [(report.since_ns, report.topology)]
    ends = [max(calls[key].end for key in row) for row in rows]
    until = math.inf
    for since_ns, topology in reversed(networks):
        since = since_ns / 1e9 - shift
        # The step before the first one only says when that begins.
        within = [row for row, end in zip(rows, ends, strict=True) if since <= end < until]
        if len(within) > LEAST_STEPS:
            return topology, within
        until = since
    return report.topology, rows


def _carry(profile: Profile) -> bool:
    """Return whether most bytes are those of named requests."""
    channels = {request.channel for request in profile.requests}
    others = sum(exchange.bytes for exchange in profile.exchanges if exchange.channel not in channels)
    return sum(request.bytes for request in profile.requests) > others


def _shifts(report: Report) -> list[float]:
    """Seconds by which the clock of each rank's machine is ahead."""
    found = clocks((rank.figures.clocks, (rank.figures.profile or Profile()).meetings) for rank in report.ranks)
    return [found[rank.figures.clocks.machine].ahead_ns / 1e9 for rank in report.ranks]


def _spans(profile: Profile, shift: float, named: bool, channels: Set[int]) -> dict[tuple[int, int], Span]:
    """Return the spans of what a rank carried out at once: batches of named requests, or calls."""
    if not named:
        return {
            (e.channel, e.sequence): Span(e.begin_ns / 1e9 - shift, e.end_ns / 1e9 - shift, e.bytes)
            for e in profile.exchanges
            if e.channel in channels and e.collective == "all_reduce"
        }
    batches: dict[tuple[int, int], list[NamedExchange]] = {}
    for request in profile.requests:
        batches.setdefault((request.channel, request.batch), []).append(request)
    return {
        key: Span(
            max(one.issued_ns for one in ones) / 1e9 - shift,
            max(one.done_ns for one in ones) / 1e9 - shift,
            sum(one.bytes for one in ones),
        )
        for key, ones in batches.items()
    }


def ends_of(run: Recording) -> list[float]:
    """Return when each step was over on all ranks, in seconds."""
    return [max(one[key].end for one in run.calls for key in row) for row in run.rows]


def exchanged(ends: Sequence[float], spans: Sequence[Mapping[tuple[int, int], Span]]) -> list[list[tuple[float, int]]]:
    """Return for each step but the first the seconds and the bytes of every exchange that it carried out.

    ends: when each step ended. An exchange begins when the last rank has called and the one before it is over.
    """
    met = sorted(
        (max(one[key].end for one in spans), max(one[key].begin for one in spans), spans[0][key].nbytes)
        for key in spans[0]
        if all(key in one for one in spans)
    )
    found: list[list[tuple[float, int]]] = [[] for _ in ends[1:]]
    free, place = 0.0, 0
    for end, begin, nbytes in met:
        while place < len(ends) and end > ends[place]:
            place += 1
        if place == len(ends):
            break
        if place:
            found[place - 1].append((end - max(begin, free), nbytes))
        free = end
    return found
