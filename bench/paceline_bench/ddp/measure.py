"""Training rates with DDP and without: every method has its own ranks, which train a few steps at a time in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median, quantiles

from paceline_bench import row
from paceline_bench.interleave import turns
from paceline_bench.session import Session
from paceline_bench.systems import System
from paceline_bench.table import column

METHODS = {
    "alone": "none",
    "silent": "ddp",
    "gloo": "ddp",
    "paceline": "ddp",
    "arena_hook": "ddp",
    "compress_int8": "ddp",
    "gradient_buckets": "arena",
    "zero_gloo": "zero",
    "zero_paceline": "zero",
    "sharded_optimizer": "arena",
    "fsdp_gloo": "fsdp",
    "fsdp_paceline": "fsdp",
}
"""The training methods of `ranks/training.py`, each with the path of its gradients.

The first two, `POSSIBLE`, show what is possible.
"""
POSSIBLE = ("alone", "silent")

PIXELS = 64
"""Width and height of the images."""


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """One training method. q1, q3: quartiles of the figure before.

    bytes: the bytes of gradients per step and rank. state_bytes: of the optimizer's state, on the rank with the most.
    time_us: median over the rounds of the slowest rank's mean step. cpu_us: the CPU time of all ranks' processes
    together, per step. exposed_us: median over the rounds of the step's time less that of the silent DDP, which is
    communication that is not hidden. images_per_second: of all ranks together. to_silent, to_alone: medians over the
    rounds of this rate over that of the silent DDP, and over that without DDP. wrong: parameters, over all ranks, whose
    gradient was wrong before the timing.
    """

    time_us: float = field(metadata=column("step(ms)", "{:.1f}", unit=1e3))
    cpu_us: float = field(metadata=column("cpu(ms)", "{:.1f}", unit=1e3))
    state_bytes: int = field(metadata=column("state(MB)", "{:.1f}", unit=1e6))
    time_us_q1: float
    time_us_q3: float
    exposed_us: float = field(metadata=column("exposed(ms)", "{:.1f}", unit=1e3))
    images_per_second: float = field(metadata=column("images/s", "{:.1f}"))
    images_per_second_q1: float = field(metadata=column("quartiles", "{:.1f}–{:.1f}", "images_per_second_q3"))
    images_per_second_q3: float
    to_silent: float = field(metadata=column("to silent", "{:.1%} ({:.0%}–{:.0%})", "to_silent_q1", "to_silent_q3"))
    to_silent_q1: float
    to_silent_q3: float
    to_alone: float = field(metadata=column("to alone", "{:.1%} ({:.0%}–{:.0%})", "to_alone_q1", "to_alone_q3"))
    to_alone_q1: float
    to_alone_q3: float


@dataclass
class Rates:
    """The measurements of one method: seconds and CPU seconds of a step, one of each per round; bytes of its state."""

    session: Session
    bytes: int
    wrong: int
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    state_bytes: int = 0


def system(method: str, batch: int) -> System:
    """Return the ranks that train by one of the methods of `METHODS`. batch: images per rank and step."""
    options = {"method": method, "batch": str(batch), "pixels": str(PIXELS)}
    return System(method, METHODS[method], ".training:Training", options)


def measure(sessions: list[Session], rounds: int, steps: int, progress: Callable[[str], None]) -> list[Rates]:
    """Check each method's gradients, then let each train `steps` steps in every round. Raises SessionFailed."""
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
            rates.state_bytes = max(reply["state_bytes"] for reply in replies)
    return found


def rows(found: list[Rates], batch: int, steps: int) -> list[Row]:
    """Return the figures, in the order of `found`."""
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
        state_bytes=rates.state_bytes,
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
    """Return the quartiles of the ratios of the rates, taken round by round."""
    ratios = [other / time for other, time in zip(others, mine, strict=True)]
    return [round(ratio, 4) for ratio in quantiles(ratios, n=4, method="inclusive")]
