"""Every policy has its own ranks, which train a few steps at a time in turn, while all others are idle."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import NamedTuple

from paceline.bench.interleave import turns
from paceline.bench.ranks.wire import Message
from paceline.bench.session import Session
from paceline.bench.systems import System
from paceline.cpu.budget import available

WARM_UP_STEPS = 2
ANSWERS = 100
"""Tensors that are handed in and waited for one after the other, to see how long agreeing takes at the least."""
DIVIDED = "divided"


class Way(NamedTuple):
    """What is measured: a policy with its way to wait and its partition of the cores, or a reference."""

    policy: str
    wait: str = ""
    cores: str = "shared"

    @property
    def label(self) -> str:
        return "-".join(word for word in (self.policy, self.wait, self.cores) if word and word != "shared")


ALONE, KNOWN, BASELINE = Way("alone"), Way("known"), Way("cycle", "spin")
WAYS = (
    ALONE,
    KNOWN,
    BASELINE,
    Way("cycle", "yield"),
    Way("global_sleep", "spin"),
    Way("nonblocking"),
    Way("cycle", "spin", DIVIDED),
    Way("graph"),
    Way("board"),
)
"""`alone` exchanges nothing; `known` exchanges when the last gradient is there, in an order that all know."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One policy on one model.

    step_ms: median over the rounds of the slowest rank's mean step, with its quartiles. compute_ms: that of the ranks
    that exchange nothing. exposed_ms: of the step, in which a rank waits for its gradients after the last was handed
    in. overhead_percent: of the step, over the one of ranks that know the order and do not overlap. to_cycle: median
    over the rounds of the step's ratio to that of `cycle` that spins. background_cpu_ms: CPU time per step and rank
    that is spent on agreeing: without packing, combining, unpacking. cpu_ms: of all ranks, per step, in all.
    negotiation_us: median over the gradients of the time from when the last rank handed it in until the last rank
    issued it. idle_negotiation_us: the same of a tensor that all ranks wait for while nothing else happens.
    oversleep_us: by how much a sleep was too long, in the mean. wrong: elements.
    """

    policy: str
    wait: str
    cores: str
    model: str
    ranks: int
    step_ms: float
    step_ms_q1: float
    step_ms_q3: float
    compute_ms: float
    exposed_ms: float
    overhead_percent: float
    to_cycle: float
    background_cpu_ms: float
    cpu_ms: float
    negotiation_us: float
    idle_negotiation_us: float
    oversleep_us: float
    wrong: int


@dataclass
class Seen:
    """What one way was seen to do: one of each per round, times in seconds."""

    session: Session
    way: Way
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
    """A model's gradients, names and elements, in the order of the forward pass."""

    name: str
    gradients: Sequence[tuple[str, int]]


def systems(model: Model, ranks: int, units: int, input_units: int, fusion_bytes: int) -> list[System]:
    """The ranks of every way; a step takes them `units` of work, and its batch `input_units`."""
    shared = {
        "model": model.name,
        "gradients": json.dumps(list(model.gradients)),
        "units": str(units),
        "input_units": str(input_units),
        "fusion_bytes": str(fusion_bytes),
    }
    return [
        System(
            way.label,
            "engine",
            ".named:Training",
            {**shared, "way": way.policy, "wait": way.wait or "spin"},
            environment={"PACELINE_CORES": divided(ranks)} if way.cores == DIVIDED else {},
        )
        for way in WAYS
    ]


def divided(ranks: int) -> str:
    """PACELINE_CORES for ranks whose engine and input workers keep off the cores of their own compute.

    Where there are two cores or more for each rank these are all its own. Otherwise the cores go round: a rank computes
    on one, and its engine and input workers use that of the next rank.
    """
    cpus = available().affinity
    if len(cpus) >= 2 * ranks:
        return "static"
    places = [(cpus[rank % len(cpus)], cpus[(rank + 1) % len(cpus)]) for rank in range(ranks)]
    return ";".join(f"engine={other},input={other},compute={own}" for own, other in places)


def measure(sessions: Sequence[Session], rounds: int, steps: int, progress: Callable[[str], None]) -> list[Seen]:
    """Lets each way train `steps` steps in every round. Raises SessionFailed."""
    ways = {way.label: way for way in WAYS}
    found = [Seen(session, ways[session.system.name]) for session in sessions]
    progress("one tensor after the other")
    for seen in found:
        _note_answers(seen, seen.session.ask(do="answer", count=ANSWERS))
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for seen in turns(found, number):
            _note(seen, seen.session.ask(do="train", warm_up=WARM_UP_STEPS, steps=steps), steps)
    return found


def _note(seen: Seen, replies: Sequence[Message], steps: int) -> None:
    seen.steps.append(max(reply["seconds"] for reply in replies) / steps)
    seen.exposed.append(max(reply["exposed_seconds"] for reply in replies) / steps)
    seen.cpu.append(sum(reply["cpu_seconds"] for reply in replies) / steps)
    seen.wrong += sum(reply["wrong"] for reply in replies)
    if "ready" not in replies[0]:
        return
    seen.background.append(sum(reply["background_cpu_ns"] for reply in replies) / 1e9 / steps / len(replies))
    seen.oversleep += sum(reply["oversleep_ns"] for reply in replies) / 1e9
    seen.sleeps += sum(reply["sleeps"] for reply in replies)
    for name in replies[0]["ready"]:
        seen.negotiation.append(_negotiation([reply["ready"][name] for reply in replies if name in reply["ready"]]))


def _note_answers(seen: Seen, replies: Sequence[Message]) -> None:
    if "answers" in replies[0]:
        answers = zip(*(reply["answers"] for reply in replies), strict=True)
        seen.idle = [_negotiation(everywhere) for everywhere in answers]


def _negotiation(everywhere: Sequence[Sequence[int]]) -> float:
    """From when the last rank had handed it in until the last one had issued it, of each rank's times for both."""
    return (max(issued for _, issued in everywhere) - max(ready for ready, _ in everywhere)) / 1e9


def rows(found: Sequence[Seen], model: str) -> list[Row]:
    """The figures, in the order of `WAYS`."""
    steps = {seen.way: seen.steps for seen in found}
    return [_row(seen, steps[ALONE], steps[KNOWN], steps[BASELINE], model) for seen in found]


def _row(seen: Seen, alone: list[float], known: list[float], baseline: list[float], model: str) -> Row:
    first, middle, third = quantiles(seen.steps, n=4, method="inclusive")
    over = [mine / theirs for mine, theirs in zip(seen.steps, known, strict=True)]
    to_cycle = [mine / theirs for mine, theirs in zip(seen.steps, baseline, strict=True)]
    return Row(
        policy=seen.way.policy,
        wait=seen.way.wait,
        cores=seen.way.cores,
        model=model,
        ranks=seen.session.ranks,
        step_ms=round(middle * 1e3, 3),
        step_ms_q1=round(first * 1e3, 3),
        step_ms_q3=round(third * 1e3, 3),
        compute_ms=round(median(alone) * 1e3, 3),
        exposed_ms=round(median(seen.exposed) * 1e3, 3),
        overhead_percent=round(100 * (median(over) - 1), 2),
        to_cycle=round(median(to_cycle), 4),
        background_cpu_ms=round(median(seen.background) * 1e3, 4) if seen.background else 0.0,
        cpu_ms=round(median(seen.cpu) * 1e3, 3),
        negotiation_us=round(median(seen.negotiation) * 1e6, 2) if seen.negotiation else 0.0,
        idle_negotiation_us=round(median(seen.idle) * 1e6, 2) if seen.idle else 0.0,
        oversleep_us=round(seen.oversleep / seen.sleeps * 1e6, 2) if seen.sleeps else 0.0,
        wrong=seen.wrong,
    )
