"""What a report says of a job: its gradients, how long its ranks compute, and what its network really carries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from paceline.observe.profile import Exchange, Handed, Profile
from paceline.observe.steps import period
from paceline.report.report import Report
from paceline.simulate.job import CYCLE_SECONDS, FUSION_BYTES, Compute, Thread
from paceline.simulate.models import BYTES, Gradient
from paceline.simulate.network import between_machines, transfer
from paceline.simulate.workload import IN_ORDER, Memory, Workload
from paceline.topology import Topology, parse
from paceline.trace.clocks import MEETINGS, Meeting, clocks

LEAST_STEPS = 4
"""Whole steps that a report must have."""
_SMALL = 1024
"""Bytes of a call; a smaller one is more likely a metric than gradients."""
_SELDOM = 0.25
"""The share of the usual kind's calls below which a kind of call is no part of a step."""
_OTHER = 0.02
"""The share of a step's bytes that collectives other than all_reduce may carry; they are not simulated."""
_LATE = 5.0
"""A sleep that is this many times as late as the usual one counts as an oversleep."""

Key = tuple[int, int, str]
"""A call, the same on all ranks: channel, number, and the name of a request or ""."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of one rank, with seconds on a clock that all ranks share."""

    key: Key
    kind: Hashable
    collective: str
    nbytes: int
    begin: float
    end: float


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
        {call.key: call for call in _calls(profile, shift, named)}
        for profile, shift in zip(profiles, shifts, strict=True)
    ]
    first = profiles[0]
    rows = _rows(list(calls[0].values()), named, [moment / 1e9 - shifts[0] for moment in first.steps_ns])
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


def _calls(profile: Profile, shift: float, named: bool) -> list[_Call]:
    """The calls of a rank that can be part of a step, in the order in which they began."""
    if named:
        found = [
            _Call((r.channel, r.batch, r.name), r.name, r.collective, r.bytes, r.submitted_ns / 1e9, r.done_ns / 1e9)
            for r in profile.requests
        ]
    else:
        apart = {request.channel for request in profile.requests}
        found = [
            _Call(
                (e.channel, e.sequence, ""),
                (e.channel, e.collective, e.bytes),
                e.collective,
                e.bytes,
                e.begin_ns / 1e9,
                e.end_ns / 1e9,
            )
            for e in profile.exchanges
            if e.channel not in apart and e.bytes >= _SMALL
        ]
    moved = (_Call(c.key, c.kind, c.collective, c.nbytes, c.begin - shift, c.end - shift) for c in found)
    return sorted(moved, key=lambda call: call.begin)


def _rows(calls: Sequence[_Call], named: bool, begins: Sequence[float]) -> list[list[Key]]:
    """The calls of each step, the oldest step first, as one rank made them. begins: of its steps, if that is known."""
    if named:
        return _by_name(calls)
    return _between(calls, begins) or _by_repetition(calls)


def _between(calls: Sequence[_Call], begins: Sequence[float]) -> list[list[Key]]:
    """The newest steps that have the same calls, if a framework has told when steps begin."""
    steps = [[call for call in calls if begin <= call.begin < end] for begin, end in pairwise([*begins, math.inf])]
    found: list[list[_Call]] = []
    for step in reversed(steps):
        kinds = Counter(call.kind for call in step)
        if step and (not found or kinds == Counter(call.kind for call in found[0])):
            found.insert(0, step)
        elif len(found) > LEAST_STEPS:
            break
        else:
            found = [step] if step else []
    return [[call.key for call in step] for step in found] if len(found) > LEAST_STEPS else []


def _by_name(calls: Sequence[_Call]) -> list[list[Key]]:
    """Steps in which every name comes once."""
    times = Counter(call.kind for call in calls)
    often = max(times.values(), default=0)
    came: dict[Hashable, list[_Call]] = {}
    for call in calls:
        if times[call.kind] >= _SELDOM * often:
            came.setdefault(call.kind, []).append(call)
    steps = min((len(ones) for ones in came.values()), default=0)
    rows = [[ones[len(ones) - steps + number] for ones in came.values()] for number in range(steps)]
    return _apart(rows)


def _by_repetition(calls: Sequence[_Call]) -> list[list[Key]]:
    """Steps that are the same row of calls, cut where the program pauses longest."""
    times = Counter(call.kind for call in calls)
    usual = median(times[call.kind] for call in calls) if calls else 0
    for chosen in (list(calls), [call for call in calls if times[call.kind] >= _SELDOM * usual]):
        length = _period([call.kind for call in chosen])
        if not length:
            continue
        same = next(
            (n for n in range(length, len(chosen)) if chosen[-1 - n].kind != chosen[-1 - n + length].kind), len(chosen)
        )
        part = chosen[-same:]
        pauses = [0.0] * length
        for place in range(1, len(part)):
            pauses[place % length] += part[place].begin - max(call.end for call in part[max(0, place - length) : place])
        first = max(range(length), key=lambda place: pauses[place] / max(1, len(range(place, len(part), length))))
        rows = [part[place : place + length] for place in range(first, len(part) - length + 1, length)]
        return _apart(rows)
    return []


def _period(kinds: Sequence[Hashable]) -> int:
    """The length of the row that the newest calls repeat, for half of them or of a newer part; 0 if there is none."""
    while len(kinds) > LEAST_STEPS:
        if found := period(kinds):
            return found
        kinds = kinds[len(kinds) // 2 :]
    return 0


def _apart(rows: Sequence[Sequence[_Call]]) -> list[list[Key]]:
    """The newest steps none of which begins before the one before it has."""
    kept = list(rows)
    for number in range(len(rows) - 1, 0, -1):
        if min(call.begin for call in rows[number]) <= max(call.begin for call in rows[number - 1]):
            kept = list(rows[number:])
            break
    return [[call.key for call in row] for row in kept]


def _gradients(rows: Sequence[Sequence[Key]], calls: Sequence[Mapping[Key, _Call]], where: str) -> tuple[Gradient, ...]:
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


def _like(row: Sequence[Key], call: _Call, place: int) -> Key:
    """The call of another step that stands for this one."""
    return next(key for key in row if key[2] == call.key[2]) if call.key[2] else row[place]


def _computation(rows: Sequence[Sequence[Key]], calls: Sequence[Mapping[Key, _Call]], where: str) -> tuple[float, ...]:
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
