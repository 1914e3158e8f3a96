"""Training steps of a Keras model: every system's ranks make a few steps at a time in turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median, quantiles

from paceline_bench import row
from paceline_bench.ddp.measure import Rates
from paceline_bench.table import column


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """One system's training steps.

    bytes: the bytes of gradients per step and rank. time_us: median over the rounds of the slowest rank's mean step;
    q1, q3: its quartiles. images_per_second: of all ranks together. times_mirrored: median over the rounds of this rate
    over that of MultiWorkerMirroredStrategy; None if that failed. wrong: the weights, over all ranks, that a step
    before the timing changed by something else than the mean of all ranks' gradients.
    """

    time_us: float = field(metadata=column("step(ms)", "{:.1f}", unit=1e3))
    cpu_us: float = field(metadata=column("cpu(ms)", "{:.1f}", unit=1e3))
    time_us_q1: float = field(metadata=column("quartiles", "{:.1f}–{:.1f}", "time_us_q3", unit=1e3))
    time_us_q3: float
    images_per_second: float = field(metadata=column("images/s", "{:.1f}"))
    times_mirrored: float | None = field(metadata=column("vs mirrored", "{:.2f}×"))


SHOWN = ("system", "path", "images_per_second", "time_us", "time_us_q1", "cpu_us", "times_mirrored", "wrong")
"""The columns of the table."""


def rows(found: list[Rates], batch: int, steps: int) -> list[Row]:
    """Return the figures, in the order of `found`. batch: images per rank and step. steps: those of a turn."""
    peer = next((rates.times for rates in found if rates.session.system.name == "mirrored"), None)
    return [_row(rates, peer, batch, steps) for rates in found]


def _row(rates: Rates, peer: list[float] | None, batch: int, steps: int) -> Row:
    first, middle, third = quantiles(rates.times, n=4, method="inclusive")
    ratio = peer and median(theirs / ours for theirs, ours in zip(peer, rates.times, strict=True))
    return Row(
        collective="keras_step",
        algorithm="convolutions",
        system=rates.session.system.name,
        path="keras",
        dtype="float32",
        bytes=rates.bytes,
        ranks=rates.session.ranks,
        buffer=rates.session.system.buffer,
        time_us=round(middle * 1e6, 1),
        time_us_q1=round(first * 1e6, 1),
        time_us_q3=round(third * 1e6, 1),
        cpu_us=round(median(rates.cpu) * 1e6, 1),
        images_per_second=round(batch * rates.session.ranks / middle, 2),
        times_mirrored=round(ratio, 4) if ratio else None,
        wrong=rates.wrong,
        iterations=len(rates.times) * steps,
    )
