"""What a report says of a job: its gradients, how long its ranks compute, and what its network really carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from paceline.observe.profile import Exchange, Handed, Profile
from paceline.report.report import Report
from paceline.simulate.job import CYCLE_SECONDS, FUSION_BYTES, Compute, Thread
from paceline.simulate.models import BYTES, Gradient
from paceline.simulate.network import between_machines, transfer
from paceline.simulate.recorded import LEAST_STEPS, Call, Key, calls_of, steps_of
from paceline.simulate.workload import IN_ORDER, Memory, Workload
from paceline.topology import Topology, parse
from paceline.trace.clocks import MEETINGS, Meeting, clocks

_OTHER = 0.02
"""The share of a step's bytes that collectives other than all_reduce may carry; they are not simulated."""
_LATE = 5.0
"""A sleep that is this many times as late as the usual one counts as an oversleep."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Something that a rank carried out at once, with seconds on a clock that all ranks share."""

    begin: float
    end: float
    nbytes: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A job as its report shows it.

    steps: seconds of each step, from the moment at which the last rank has all of one step's gradients to the same
    moment of the next. topology: its network.
    """

    workload: Workload
    topology: Topology
    steps: tuple[float, ...]


def calibrate(report: Report, where: str) -> Measured:
    """Return what a report says of its job. where: the report's file, for errors.

    Raises ValueError, with one sentence, for a report from which a job cannot be simulated.
    """
    if report.missing:
        rank, why = min(report.missing.items())
        raise ValueError(f"{where} is of a run that did not end well: rank {rank} gave no figures ({why:.200})")
    profiles = [rank.figures.profile for rank in report.ranks if rank.figures.profile is not None]
    if len(profiles) < report.size or not report.topology:
        raise ValueError(f"{where} does not say when ranks made their calls; record a run with this Paceline")
    if report.size < 2:
        raise ValueError(f"{where} is of one rank, which exchanges nothing; record a run of two ranks or more")
    topology = parse(report.topology)
    shifts = _shifts(report)
    named = bool(profiles[0].requests) and _carry(profiles[0])
    calls = [
        {call.key: call for call in calls_of(profile, shift, named)}
        for profile, shift in zip(profiles, shifts, strict=True)
    ]
    first = profiles[0]
    rows = steps_of(list(calls[0].values()), named, [moment / 1e9 - shifts[0] for moment in first.steps_ns])
    rows = [row for row in rows if all(key in one for one in calls for key in row)]
    if len(rows) <= LEAST_STEPS:
        raise ValueError(
            f"{where} shows {max(0, len(rows) - 1)} whole steps; at least {LEAST_STEPS} with the same calls are needed"
        )
    gradients = _gradients(rows, calls, where)
    ends = [max(one[key].end for one in calls for key in row) for row in rows]
    channels = {key[0] for key in rows[0]}
    spans = [_spans(profile, shift, named, channels) for profile, shift in zip(profiles, shifts, strict=True)]
    policies = {policy for rank in report.ranks for policy in rank.figures.policies.values()}
    workload = Workload(
        gradients=gradients,
        policy=min(policies) if named and policies else IN_ORDER,
        compute=Compute(seconds=0.0, samples=_computation(rows, calls, where)),
        thread=_thread(profiles),
        carries=_carries(ends, spans, topology),
        memory=Memory(median(one.copy_rate for one in profiles), max(len(here) for _, here in topology.machines())),
        fusion_bytes=first.fusion_bytes or FUSION_BYTES,
        cycle_seconds=first.cycle_seconds or CYCLE_SECONDS,
    )
    return Measured(workload, topology, tuple(b - a for a, b in pairwise(ends)))


def _carry(profile: Profile) -> bool:
    """Whether most bytes are those of named requests."""
    channels = {request.channel for request in profile.requests}
    others = sum(exchange.bytes for exchange in profile.exchanges if exchange.channel not in channels)
    return sum(request.bytes for request in profile.requests) > others


def _shifts(report: Report) -> list[float]:
    """Seconds by which the clock of each rank's machine is ahead; 0 unless its calls prove that it is."""
    hosts = [rank.figures.host for rank in report.ranks]
    seen = [
        (
            rank.figures.host,
            [Meeting(e.channel, e.sequence, e.begin_ns, e.end_ns) for e in _exchanges(rank.figures.profile)],
        )
        for rank in report.ranks
    ]
    found = clocks(seen)
    return [0.0 if abs(found[host].ahead_ns) <= found[host].error_ns else found[host].ahead_ns / 1e9 for host in hosts]


def _exchanges(profile: Profile | None) -> list[Exchange]:
    return [each for each in profile.exchanges if each.collective in MEETINGS] if profile is not None else []


def _gradients(rows: Sequence[Sequence[Key]], calls: Sequence[Mapping[Key, Call]], where: str) -> tuple[Gradient, ...]:
    """What every rank hands in in a step, and after which fraction of its computation."""
    first = [calls[0][key] for key in rows[0]]
    other = sum(call.nbytes for call in first if call.collective != "all_reduce")
    if other > _OTHER * sum(call.nbytes for call in first):
        names = sorted({call.collective for call in first} - {"all_reduce"})
        raise ValueError(f"{where} has {', '.join(names)} in its steps, but only all_reduce is simulated")
    found = []
    for place, call in enumerate(first):
        if call.collective != "all_reduce":
            continue
        ready = []
        for one in calls:
            for before, row in pairwise(rows):
                begin = max(one[key].end for key in before)
                last = max(one[key].begin for key in row)
                if last > begin:
                    ready.append((one[_like(row, call, place)].begin - begin) / (last - begin))
        name = call.key[2] or f"call {place}"
        found.append(Gradient(name, max(1, call.nbytes // BYTES), min(1.0, max(0.0, median(ready or [1.0])))))
    latest = max(each.ready for each in found)
    return tuple(Gradient(each.name, each.elements, each.ready / latest if latest else 1.0) for each in found)


def _like(row: Sequence[Key], call: Call, place: int) -> Key:
    """The call of another step that stands for this one."""
    return next(key for key in row if key[2] == call.key[2]) if call.key[2] else row[place]


def _computation(rows: Sequence[Sequence[Key]], calls: Sequence[Mapping[Key, Call]], where: str) -> tuple[float, ...]:
    """Seconds from the end of a rank's step to the last hand-in of its next one, of all ranks and steps."""
    found = [
        max(one[key].begin for key in row) - max(one[key].end for key in before)
        for one in calls
        for before, row in pairwise(rows)
    ]
    if median(found) <= 0:
        raise ValueError(f"{where} is of a program that does not wait for its gradients, which is not simulated")
    return tuple(max(0.0, each) for each in found)


def _carries(
    ends: Sequence[float], spans: Sequence[Mapping[tuple[int, int], _Span]], topology: Topology
) -> tuple[float, ...]:
    """How many times as long as the model of the network says the exchanges of each step took; empty on one machine.

    An exchange begins when the last rank has called and the one before it is over.
    """
    if not between_machines(topology):
        return ()
    met = sorted(
        (max(one[key].end for one in spans), max(one[key].begin for one in spans), spans[0][key].nbytes)
        for key in spans[0]
        if all(key in one for one in spans)
    )
    network = transfer(topology)
    found, free, place = [], 0.0, 0
    for before, over in pairwise(ends):
        took = told = 0.0
        while place < len(met) and met[place][0] <= over:
            end, begin, nbytes = met[place]
            if end > before:
                took += end - max(begin, free)
                told += network.seconds(nbytes)
            free = end
            place += 1
        if told:
            found.append(took / told)
    return tuple(found)


def _spans(profile: Profile, shift: float, named: bool, channels: Set[int]) -> dict[tuple[int, int], _Span]:
    """What a rank carried out at once: batches of named requests, or calls."""
    if not named:
        return {
            (e.channel, e.sequence): _Span(e.begin_ns / 1e9 - shift, e.end_ns / 1e9 - shift, e.bytes)
            for e in profile.exchanges
            if e.channel in channels and e.collective == "all_reduce"
        }
    batches: dict[tuple[int, int], list[Handed]] = {}
    for request in profile.requests:
        batches.setdefault((request.channel, request.batch), []).append(request)
    return {
        key: _Span(
            max(one.issued_ns for one in ones) / 1e9 - shift,
            max(one.done_ns for one in ones) / 1e9 - shift,
            sum(one.bytes for one in ones),
        )
        for key, ones in batches.items()
    }


def _thread(profiles: Sequence[Profile]) -> Thread:
    late = sorted(nanoseconds / 1e9 for profile in profiles for nanoseconds in profile.late_ns)
    if not late:
        return Thread()
    usual = median(late)
    very = [each for each in late if each > _LATE * usual]
    return Thread(wake=usual, oversleeps=len(very) / len(late), oversleep=sum(very) / len(very) if very else 0.0)
