"""The job that a report describes: its gradients, how long its ranks compute, and what its network really carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from paceline.observe.profile import Profile
from paceline.observe.report import Report
from paceline.simulate.compute import Compute
from paceline.simulate.job import CYCLE_SECONDS, FUSION_BYTES, Thread
from paceline.simulate.links import changed, inside
from paceline.simulate.models import BYTES, Gradient
from paceline.simulate.network import between_machines, transfer
from paceline.simulate.recorded import Call, Key
from paceline.simulate.recording import ends_of, exchanged, recording
from paceline.simulate.workload import IN_ORDER, Memory, Workload
from paceline.topology import Topology

_OTHER = 0.02
"""The share of a step's bytes that collectives other than all_reduce may carry; they are not simulated."""
_LATE = 5.0
"""A sleep that is this many times as late as the usual one counts as an oversleep."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A job as its report shows it.

    steps: seconds of each step, from the moment at which the last rank has all of one step's gradients to the same
    moment of the next. topology: its network, where links inside machines are as fast as its ranks copied memory.
    """

    workload: Workload
    topology: Topology
    steps: tuple[float, ...]


def calibrate(report: Report, where: str) -> Measured:
    """Return what a report says of its job. where: the report's file, for errors.

    Raises ValueError, with one sentence, for a report from which a job cannot be simulated.
    """
    run = recording(report, where)
    calls, rows = run.calls, run.rows
    memory = Memory(
        median(one.copy_rate for one in run.profiles), max(len(here) for _, here in run.topology.machines())
    )
    topology = changed(run.topology, lambda node: replace(node, assumed=()))
    if memory.copy_rate:
        topology = inside(topology, memory.rate)
    gradients = _gradients(rows, calls, where)
    ends = ends_of(run)
    policies = {policy for rank in report.ranks for policy in rank.figures.policies.values()}
    first = run.profiles[0]
    workload = Workload(
        gradients=gradients,
        policy=min(policies) if run.named and policies else IN_ORDER,
        compute=Compute(seconds=0.0, steps=_computation(rows, calls, where)),
        thread=_thread(run.profiles),
        carries=_carries(exchanged(ends, run.spans), topology),
        memory=memory,
        fusion_bytes=first.fusion_bytes or FUSION_BYTES,
        cycle_seconds=first.cycle_seconds or CYCLE_SECONDS,
    )
    return Measured(workload, topology, tuple(b - a for a, b in pairwise(ends)))


def _gradients(rows: Sequence[Sequence[Key]], calls: Sequence[Mapping[Key, Call]], where: str) -> tuple[Gradient, ...]:
    """Return the gradients that every rank submits in a step, each with the fraction of the computation before it."""
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


def _computation(
    rows: Sequence[Sequence[Key]], calls: Sequence[Mapping[Key, Call]], where: str
) -> tuple[tuple[float, ...], ...]:
    """Seconds from the end of a rank's step to the last submission of its next one, by step and rank."""
    found = [
        [max(one[key].begin for key in row) - max(one[key].end for key in before) for one in calls]
        for before, row in pairwise(rows)
    ]
    if median(seconds for step in found for seconds in step) <= 0:
        raise ValueError(f"{where} is of a program that does not wait for its gradients, which is not simulated")
    return tuple(tuple(max(0.0, seconds) for seconds in step) for step in found)


def _carries(steps: Sequence[Sequence[tuple[float, int]]], topology: Topology) -> tuple[float, ...]:
    """Return the ratio of each step's exchange time to that of the network's model; empty on one machine."""
    if not between_machines(topology):
        return ()
    network = transfer(topology)
    told = [sum(network.seconds(nbytes) for _, nbytes in step) for step in steps]
    return tuple(sum(took for took, _ in step) / model for step, model in zip(steps, told, strict=True) if model)


def _thread(profiles: Sequence[Profile]) -> Thread:
    late = sorted(nanoseconds / 1e9 for profile in profiles for nanoseconds in profile.late_ns)
    if not late:
        return Thread()
    usual = median(late)
    very = [each for each in late if each > _LATE * usual]
    return Thread(wake=usual, oversleeps=len(very) / len(late), oversleep=sum(very) / len(very) if very else 0.0)
