"""Measures coordination: every method has its own ranks, which train a few steps at a time in turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import NamedTuple

from paceline.cpu.budget import available
from paceline_bench.interleave import turns
from paceline_bench.ranks.wire import Message
from paceline_bench.session import Session
from paceline_bench.systems import System
from paceline_bench.table import column, wrong

WARM_UP_STEPS = 2
"""Untimed steps at the begin of each turn."""
ANSWERS = 100
"""Tensors that are submitted and waited for one after the other, to find the shortest time that agreeing takes."""
DIVIDED = "divided"


class Method(NamedTuple):
    """The method that is measured: a policy with its way to wait and its partition of the cores, or a reference."""

    policy: str
    wait: str = ""
    cores: str = "shared"

    @property
    def label(self) -> str:
        """Identifies the method within a run."""
        return "-".join(word for word in (self.policy, self.wait, self.cores) if word and word != "shared")


ALONE, KNOWN, BASELINE = Method("alone"), Method("known"), Method("cycle", "spin")
METHODS = (
    ALONE,
    KNOWN,
    BASELINE,
    Method("cycle", "yield"),
    Method("global_sleep", "spin"),
    Method("nonblocking"),
    Method("cycle", "spin", DIVIDED),
    Method("graph"),
    Method("board"),
)
"""`alone` exchanges nothing; `known` exchanges once the last gradient is ready, in an order that all ranks know."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One policy on one model.

    step_ms: median over the rounds of the slowest rank's mean step, with quartiles. compute_ms: the same for ranks that
    exchange nothing. exposed_ms: the part of the step in which a rank waits for its gradients after it submitted the
    last one. overhead_percent: how much longer the step is than that of ranks that know the order and do not overlap.
    to_cycle: median over the rounds of the step's ratio to that of a spinning `cycle`. background_cpu_ms: CPU time per
    step and rank for agreeing, without packing, combining and unpacking. cpu_ms: CPU time of all ranks per step.
    negotiation_us: median over the gradients of the time from the last rank's submission to the last rank's issue.
    idle_negotiation_us: the same for a tensor that all ranks wait for while nothing else happens. oversleep_us: the
    mean time by which a sleep was too long. wrong: the number of wrong elements.
    """

    policy: str = field(metadata=column("policy"))
    wait: str = field(metadata=column("wait"))
    cores: str = field(metadata=column("cores"))
    model: str = field(metadata=column("model"))
    ranks: int
    step_ms: float = field(metadata=column("step(ms)", "{:.1f}"))
    step_ms_q1: float = field(metadata=column("quartiles", "{:.1f}–{:.1f}", "step_ms_q3"))
    step_ms_q3: float
    compute_ms: float
    exposed_ms: float = field(metadata=column("exposed", "{:.1f}"))
    overhead_percent: float = field(metadata=column("overhead", "{:+.1f}%"))
    to_cycle: float = field(metadata=column("to cycle", "{:.3f}"))
    background_cpu_ms: float = field(metadata=column("agreeing(ms)", "{:.3f}"))
    cpu_ms: float = field(metadata=column("cpu(ms)", "{:.1f}"))
    negotiation_us: float = field(metadata=column("negotiation(us)", "{:.1f}"))
    idle_negotiation_us: float = field(metadata=column("idle(us)", "{:.1f}"))
    oversleep_us: float = field(metadata=column("oversleep(us)", "{:.1f}"))
    wrong: int = field(metadata=column("#wrong", wrong))


@dataclass
class Measurements:
    """The measurements of one method, one of each per round; times are in seconds."""

    session: Session
    method: Method
    steps: list[float] = field(default_factory=list)
    exposed: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    background: list[float] = field(default_factory=list)
    negotiation: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    oversleep: float = 0
    sleeps: int = 0
    wrong: int = 0


@dataclass(frozen=True)
class Model:
    """A model's gradients, names and numbers of elements, in the order of the forward pass."""

    name: str
    gradients: Sequence[tuple[str, int]]


def systems(model: Model, ranks: int, units: int, input_units: int, fusion_bytes: int) -> list[System]:
    """Return the ranks of every method.

    units: the work of a step, in units of `ComputeLoad`. input_units: the work of a batch.
    """
    shared = {
        "model": model.name,
        "gradients": json.dumps(list(model.gradients)),
        "units": str(units),
        "input_units": str(input_units),
        "fusion_bytes": str(fusion_bytes),
    }
    return [
        System(
            method.label,
            "engine",
            ".named:Training",
            {**shared, "method": method.policy, "wait": method.wait or "spin"},
            environment={"PACELINE_CORES": divided(ranks)} if method.cores == DIVIDED else {},
        )
        for method in METHODS
    ]


def divided(ranks: int) -> str:
    """Return PACELINE_CORES for ranks whose engine and input workers avoid the cores of their own compute threads.

    If there are at least two cores for each rank, these are all its own. Otherwise the cores go round: a rank computes
    on one, and its engine and input workers use that of the next rank.
    """
    cpus = available().affinity
    if len(cpus) >= 2 * ranks:
        return "static"
    places = [(cpus[rank % len(cpus)], cpus[(rank + 1) % len(cpus)]) for rank in range(ranks)]
    return ";".join(f"engine={other},input={other},compute={own}" for own, other in places)


def measure(
    sessions: Sequence[Session], rounds: int, steps: int, progress: Callable[[str], None]
) -> list[Measurements]:
    """Let each method train `steps` steps in every round. Raises SessionFailed."""
    methods = {method.label: method for method in METHODS}
    found = [Measurements(session, methods[session.system.name]) for session in sessions]
    progress("one tensor after the other")
    for measured in found:
        _note_answers(measured, measured.session.ask(do="answer", count=ANSWERS))
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for measured in turns(found, number):
            _note(measured, measured.session.ask(do="train", warm_up=WARM_UP_STEPS, steps=steps), steps)
    return found


def _note(measured: Measurements, replies: Sequence[Message], steps: int) -> None:
    measured.steps.append(max(reply["seconds"] for reply in replies) / steps)
    measured.exposed.append(max(reply["exposed_seconds"] for reply in replies) / steps)
    measured.cpu.append(sum(reply["cpu_seconds"] for reply in replies) / steps)
    measured.wrong += sum(reply["wrong"] for reply in replies)
    if "ready" not in replies[0]:
        return
    measured.background.append(sum(reply["background_cpu_ns"] for reply in replies) / 1e9 / steps / len(replies))
    measured.oversleep += sum(reply["oversleep_ns"] for reply in replies) / 1e9
    measured.sleeps += sum(reply["sleeps"] for reply in replies)
    for name in replies[0]["ready"]:
        measured.negotiation.append(_negotiation([reply["ready"][name] for reply in replies if name in reply["ready"]]))


def _note_answers(measured: Measurements, replies: Sequence[Message]) -> None:
    if "answers" in replies[0]:
        answers = zip(*(reply["answers"] for reply in replies), strict=True)
        measured.idle = [_negotiation(everywhere) for everywhere in answers]


def _negotiation(everywhere: Sequence[Sequence[int]]) -> float:
    """Return the seconds from the last rank's submission to the last issue; `everywhere` has both times in ns."""
    return (max(issued for _, issued in everywhere) - max(ready for ready, _ in everywhere)) / 1e9


def rows(found: Sequence[Measurements], model: str) -> list[Row]:
    """Return the figures, in the order of `METHODS`."""
    steps = {measured.method: measured.steps for measured in found}
    return [_row(measured, steps[ALONE], steps[KNOWN], steps[BASELINE], model) for measured in found]


def _row(measured: Measurements, alone: list[float], known: list[float], baseline: list[float], model: str) -> Row:
    first, middle, third = quantiles(measured.steps, n=4, method="inclusive")
    over = [mine / theirs for mine, theirs in zip(measured.steps, known, strict=True)]
    to_cycle = [mine / theirs for mine, theirs in zip(measured.steps, baseline, strict=True)]
    return Row(
        policy=measured.method.policy,
        wait=measured.method.wait,
        cores=measured.method.cores,
        model=model,
        ranks=measured.session.ranks,
        step_ms=round(middle * 1e3, 3),
        step_ms_q1=round(first * 1e3, 3),
        step_ms_q3=round(third * 1e3, 3),
        compute_ms=round(median(alone) * 1e3, 3),
        exposed_ms=round(median(measured.exposed) * 1e3, 3),
        overhead_percent=round(100 * (median(over) - 1), 2),
        to_cycle=round(median(to_cycle), 4),
        background_cpu_ms=round(median(measured.background) * 1e3, 4) if measured.background else 0.0,
        cpu_ms=round(median(measured.cpu) * 1e3, 3),
        negotiation_us=round(median(measured.negotiation) * 1e6, 2) if measured.negotiation else 0.0,
        idle_negotiation_us=round(median(measured.idle) * 1e6, 2) if measured.idle else 0.0,
        oversleep_us=round(measured.oversleep / measured.sleeps * 1e6, 2) if measured.sleeps else 0.0,
        wrong=measured.wrong,
    )
