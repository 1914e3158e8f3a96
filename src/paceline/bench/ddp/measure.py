"""Training step rates through DDP: every way to train has its own ranks, and a few steps at a time in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median, quantiles

from paceline.bench import row
from paceline.bench.interleave import turns
from paceline.bench.session import Session
from paceline.bench.systems import System

WAYS = {
    "alone": "none",
    "silent": "ddp",
    "gloo": "ddp",
    "paceline": "ddp",
    "arena_hook": "ddp",
    "gradient_buckets": "arena",
    "fsdp_gloo": "fsdp",
    "fsdp_paceline": "fsdp",
}
"""The ways of `ranks/training.py`, each with the path that its gradients take; the first two show what is possible."""

PIXELS = 64


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """One way to train.

    bytes: of gradients per step and rank. time_us: median over the rounds of the slowest rank's mean step; cpu_us: of
    all ranks' processes together, per step. images_per_second: all ranks together. to_silent, to_alone: medians over
    the rounds of this rate over that through a DDP whose backend does nothing, and over that without DDP. q1, q3: the
    quartiles of each. exposed_us: median over the rounds of the step's time less that of the silent DDP: communication
    that is not hidden. wrong: parameters, over all ranks, whose gradient was wrong before the timing.
    """

    time_us_q1: float
    time_us_q3: float
    exposed_us: float
    images_per_second: float
    images_per_second_q1: float
    images_per_second_q3: float
    to_silent: float
    to_silent_q1: float
    to_silent_q3: float
    to_alone: float
    to_alone_q1: float
    to_alone_q3: float


@dataclass
class Rates:
    """What one way to train was seen to do: seconds of a step and CPU seconds, one of each per round."""

    session: Session
    bytes: int
    wrong: int
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def system(way: str, batch: int) -> System:
    """The ranks that train in one of `WAYS`."""
    options = {"way": way, "batch": str(batch), "pixels": str(PIXELS)}
    return System(way, WAYS[way], ".training:Training", options)


def measure(sessions: list[Session], rounds: int, steps: int, progress: Callable[[str], None]) -> list[Rates]:
    """Checks each way's gradients, then lets each train `steps` steps in every round. Raises SessionFailed."""
    found = []
    for session in sessions:
        progress(f"checking {session.system.name}")
        replies = session.ask(do="check")
        found.append(Rates(session, replies[0]["bytes"], sum(reply["wrong"] for reply in replies)))
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for rates in turns(found, number):
            replies = rates.session.ask(do="train", steps=steps)
            rates.times.append(max(reply["seconds"] for reply in replies) / steps)
            rates.cpu.append(sum(reply["cpu_seconds"] for reply in replies) / steps)
    return found


def rows(found: list[Rates], batch: int, steps: int) -> list[Row]:
    """The figures, in the order of `WAYS`."""
    times = {rates.session.system.name: rates.times for rates in found}
    return [_row(rates, times["alone"], times["silent"], batch, steps) for rates in found]


def _row(rates: Rates, alone: list[float], silent: list[float], batch: int, steps: int) -> Row:
    mine, ranks = rates.times, rates.session.ranks
    first, middle, third = quantiles(mine, n=4, method="inclusive")
    images = batch * ranks
    to_silent, to_alone = _ratios(silent, mine), _ratios(alone, mine)
    return Row(
        collective="ddp",
        algorithm="resnet18",
        system=rates.session.system.name,
        path=rates.session.system.path,
        dtype="float32",
        bytes=rates.bytes,
        ranks=ranks,
        buffer=rates.session.system.buffer,
        time_us=round(middle * 1e6, 1),
        time_us_q1=round(first * 1e6, 1),
        time_us_q3=round(third * 1e6, 1),
        exposed_us=round(median(time - hidden for time, hidden in zip(mine, silent, strict=True)) * 1e6, 1),
        cpu_us=round(median(rates.cpu) * 1e6, 1),
        images_per_second=round(images / middle, 2),
        images_per_second_q1=round(images / third, 2),
        images_per_second_q3=round(images / first, 2),
        to_silent=to_silent[1],
        to_silent_q1=to_silent[0],
        to_silent_q3=to_silent[2],
        to_alone=to_alone[1],
        to_alone_q1=to_alone[0],
        to_alone_q3=to_alone[2],
        wrong=rates.wrong,
        iterations=len(mine) * steps,
    )


def _ratios(others: list[float], mine: list[float]) -> list[float]:
    """The quartiles of the ratios of the rates, round by round."""
    ratios = [other / time for other, time in zip(others, mine, strict=True)]
    return [round(ratio, 4) for ratio in quantiles(ratios, n=4, method="inclusive")]
