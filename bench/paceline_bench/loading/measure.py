"""The cost of reading images for the ranks of a machine: by a pipeline that they share, or by one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from paceline_bench.interleave import turns
from paceline_bench.session import Session, SessionFailed
from paceline_bench.systems import System
from paceline_bench.table import column

METHODS = ("shared", "own")
"""Paceline's loader, and a DataLoader for each rank with as many input workers in all."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to read. The fields are the keys in JSON.

    images_per_second: of all ranks together, the median over the rounds, with quartiles. cpu_us: the median of the CPU
    time of ranks and input workers together per image. to_own, cpu_to_own: the median over the rounds of the rate over
    that of "own" in the same round, and of the images per CPU second over its.
    """

    method: str = field(metadata=column("pipeline"))
    ranks: int
    workers: int
    pixels: int
    images_per_second: float = field(metadata=column("images/s", "{:.0f}"))
    images_per_second_q1: float = field(metadata=column("quartiles", "{:.0f}–{:.0f}", "images_per_second_q3"))
    images_per_second_q3: float
    cpu_us: float = field(metadata=column("cpu(us)", "{:.0f}"))
    to_own: float = field(metadata=column("to own", "{:.2f}×"))
    cpu_to_own: float = field(metadata=column("cpu to own", "{:.2f}×"))


@dataclass
class Rounds:
    """Wall and CPU seconds per image of one method, of each round."""

    method: str
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def system(method: str, batch: int, workers: int, pixels: int, images: int) -> System:
    """Return the ranks that read by one of `METHODS`. batch, workers, images: of all ranks together."""
    options = {"method": method, "batch": batch, "workers": workers, "pixels": pixels, "images": images}
    return System(method, "torch", ".loading:Loading", {name: str(value) for name, value in options.items()})


def measure(sessions: Sequence[Session], images: int, rounds: int, progress: Callable[[str], None]) -> list[Rounds]:
    """Let each session read an epoch of so many images in every round, after one that does not count.

    Raises SessionFailed, also if ranks get another number of images.
    """
    found = [Rounds(session.system.name) for session in sessions]
    by_method = {session.system.name: session for session in sessions}
    for number in range(rounds + 1):
        for one in turns(found, number):
            progress(f"round {number} of {rounds}, {one.method}")
            replies = by_method[one.method].ask(do="read")
            got = sum(reply["images"] for reply in replies)
            if got != images:
                raise SessionFailed(f"{one.method}: the ranks got {got} images of {images}")
            if number:
                one.wall.append(max(reply["seconds"] for reply in replies) / images)
                one.cpu.append(sum(reply["cpu_seconds"] for reply in replies) / images)
    return found


def rows(found: Sequence[Rounds], ranks: int, workers: int, pixels: int) -> list[Row]:
    """Return the figures; one of the methods is "own"."""
    own = next(one for one in found if one.method == "own")
    return [_row(one, own, ranks, workers, pixels) for one in found]


def _row(one: Rounds, own: Rounds, ranks: int, workers: int, pixels: int) -> Row:
    first, middle, third = quantiles((1 / seconds for seconds in one.wall), n=4, method="inclusive")
    return Row(
        method=one.method,
        ranks=ranks,
        workers=workers,
        pixels=pixels,
        images_per_second=round(middle, 1),
        images_per_second_q1=round(first, 1),
        images_per_second_q3=round(third, 1),
        cpu_us=round(1e6 * median(one.cpu), 1),
        to_own=round(median(its / mine for its, mine in zip(own.wall, one.wall, strict=True)), 4),
        cpu_to_own=round(median(its / mine for its, mine in zip(own.cpu, one.cpu, strict=True)), 4),
    )
