"""Steps of models in partitions, beside DDP and one rank alone: each way has its own ranks, which train in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import quantiles

from paceline.formats.sizes import show_bytes
from paceline_bench.interleave import turns
from paceline_bench.session import Session
from paceline_bench.systems import System
from paceline_bench.table import column

MODELS = ("ResNet-110", "VGG16", "transformer", "U-Net", "ResNet-1001", "two towers")
"""Those of `ranks/partitioned_tasks.py`."""
AUTO = "auto"
ACTIVATIONS = ("recompute", "file", "keep")


def _beside(predicted: float, measured: float) -> str:
    return f"{predicted:.1f} ({predicted / measured - 1:+.0%})"


def _bytes_beside(predicted: int, measured: int) -> str:
    return f"{show_bytes(predicted)} ({predicted / measured - 1:+.0%})"


@dataclass(frozen=True)
class Row:
    """One model, trained in one way. The fields are the keys in JSON.

    system: serial, ddp or hybrid, or auto for the shape that hybrid has chosen. batch: the samples of a step, of all
    replicas together. step_ms: median over the rounds of the slowest rank's mean step, the optimizer included, with
    quartiles. peak_bytes: of the rank with the most, beyond what it had without the model. predicted_ms,
    predicted_bytes: what `hybrid` has predicted, a step with the optimizer and without the loss; None for the others.
    side_by_side: the partitions of a replica or the replicas of a partition, whichever share machines where they can;
    None with one partition or one replica. kept: the least share of a stage's activations
    that is kept in memory. max_gradient_error: over all parameters, the norm of the difference to the serial model's
    gradient over the latter's norm.
    """

    model: str = field(metadata=column("model"))
    system: str = field(metadata=column("system"))
    ranks: int
    batch: int
    partitions: int
    replicas: int
    microbatches: int
    schedule: str
    side_by_side: str | None
    step_ms: float = field(metadata=column("step(ms)", "{:.1f}"))
    step_ms_q1: float = field(metadata=column("quartiles", "{:.1f}–{:.1f}", "step_ms_q3"))
    step_ms_q3: float
    predicted_ms: float | None = field(metadata=column("predicted", _beside, "step_ms"))
    peak_bytes: int = field(metadata=column("peak", show_bytes))
    predicted_bytes: int | None = field(metadata=column("predicted", _bytes_beside, "peak_bytes"))
    kept: float
    max_gradient_error: float = field(metadata=column("gradient error", "{:.1e}"))

    @property
    def shape(self) -> str:
        """Partitions, replicas and microbatches, and what is side by side."""
        found = f"{self.partitions}x{self.replicas}x{self.microbatches}"
        return found if self.side_by_side is None else f"{found}, {self.side_by_side}"


@dataclass
class Steps:
    """The measurements of one way to train: seconds of a step, one for each round."""

    session: Session
    shape: tuple[int, int, int, str, str | None]
    predicted: float | None
    needed: int | None
    kept: float
    peak: int
    error: float
    times: list[float] = field(default_factory=list)


def shapes(text: str, ranks: int, batch: int) -> list[str]:
    """Return the shapes of a list such as "auto,2x1x8" (partitions × replicas × microbatches).

    "all" stands for every division of the ranks, with microbatches in powers of two times the partitions. Raises
    ValueError unless each divides the ranks and the batch.
    """
    found: list[str] = []
    for word in text.split(","):
        if word == "all":
            found += _all(ranks, batch)
            continue
        parts = [int(part) for part in word.split("x") if part.isdecimal()]
        if word != AUTO and (len(parts) != 3 or parts[0] * parts[1] != ranks or not 1 <= parts[2] <= batch // parts[1]):
            raise ValueError(
                f"{word!r:.40} is no shape of {ranks} ranks and {batch} samples: write auto, all, or "
                f"partitions x replicas x microbatches, such as {ranks}x1x{2 * ranks}"
            )
        found.append(word)
    return list(dict.fromkeys(found))


def _all(ranks: int, batch: int) -> Iterator[str]:
    for partitions in range(1, ranks + 1):
        if ranks % partitions == 0:
            number = partitions
            while number <= min(64, batch * partitions // ranks):
                yield f"{partitions}x{ranks // partitions}x{number}"
                number *= 2


def systems(
    model: str, wanted: list[str], schedule: str, batch: int, memory: str = "", activations: str = "recompute"
) -> list[System]:
    """Return the ranks for one model: one system for each shape, and if memory is not limited serial and DDP."""
    options = {"model": model, "batch": str(batch), "schedule": schedule, "memory": memory, "activations": activations}
    others = () if memory else ("serial", "ddp")
    found = [System(name, model, ".partitioned:Partitioned", {**options, "method": name}) for name in others]
    for word in wanted:
        parts = [AUTO] * 3 if word == AUTO else word.split("x")
        shape = dict(zip(("partitions", "replicas", "microbatches"), parts, strict=True))
        name = AUTO if word == AUTO else "hybrid"
        found.append(
            System(name, model, ".partitioned:Partitioned", {**options, **shape, "method": "hybrid"}, variant=word)
        )
    return found


def measure(sessions: list[Session], rounds: int, steps: int, progress: Callable[[str], None]) -> list[Steps]:
    """Build, check, and then train `steps` steps in every round. Only one session works at a time.

    Raises SessionFailed.
    """
    found = []
    for session in sessions:
        progress(f"building {session.system.label}")
        replies = session.ask(do="build")
        progress(f"checking {session.system.label}")
        error = max(float(reply["worst"]) for reply in session.ask(do="check"))
        first, peak = replies[0], max(int(reply["peak"]) for reply in replies)
        found.append(
            Steps(session, tuple(first["shape"]), first["predicted"], first["needed"], first["kept"], peak, error)
        )
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for one in turns(found, number):
            one.times.append(max(float(reply["seconds"]) for reply in one.session.ask(do="train", steps=steps)) / steps)
    return found


def row(one: Steps) -> Row:
    """Return the figures."""
    first, middle, third = (round(1e3 * time, 3) for time in quantiles(one.times, n=4, method="inclusive"))
    system = one.session.system
    partitions, replicas, microbatches, schedule, side_by_side = one.shape
    return Row(
        model=system.path,
        system=system.name,
        ranks=one.session.ranks,
        batch=int(system.options["batch"]),
        partitions=partitions,
        replicas=replicas,
        microbatches=microbatches,
        schedule=schedule,
        side_by_side=side_by_side,
        step_ms=middle,
        step_ms_q1=first,
        step_ms_q3=third,
        predicted_ms=None if one.predicted is None else round(1e3 * one.predicted, 3),
        peak_bytes=one.peak,
        predicted_bytes=one.needed,
        kept=round(one.kept, 4),
        max_gradient_error=one.error,
    )
