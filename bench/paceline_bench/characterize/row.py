"""The rows of a characterisation, and how they follow from what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean, median, quantiles
from typing import Any

from paceline.observe.spans import covered
from paceline_bench.ranks.wire import Message
from paceline_bench.table import column, wrong


@dataclass(frozen=True, order=True)
class Configuration:
    """A training, and the place where ranks run it.

    network: the name of the lab's topology, or "this machine". image_size: width and height of the images in pixels.
    batch: images per rank and step.
    """

    network: str
    ranks: int
    model: str
    image_size: int
    batch: int


@dataclass(frozen=True, kw_only=True)
class Row:
    """One approach in one configuration: the fields are the keys in JSON.

    kind, framework: see `approaches`. images_per_s: of all ranks together, the median over the rounds. efficiency: the
    median over the rounds of this rate over that of the same ranks in the same round when they exchange nothing; 1 is
    perfect scaling. q1, q3: quartiles of the figure before.

    The step is divided into the following parts. compute_ms: a step without exchange, the mean over the ranks.
    waiting_ms: from when a rank has its own gradients until the last rank has its own, the mean over the ranks.
    negotiation_ms, copies_ms: how long ranks agree on an order, and copy to and from buffers of fused gradients; None
    where the approach does not show it, so that transfer_ms holds it. transfer_ms: all the rest of the step: what of
    the exchange no computation hides, and the CPU time that it takes from the computation.

    gradient_bytes: bytes of a rank's gradients. bound_ms: what no all-reduce of them can beat on the lab's links; None
    on one machine. wrong: the number of tensors, over all ranks, that the first step did not change as it should have.
    steps: timed steps. load: the machine's load average over the last minute, at the end.
    """

    approach: str = field(metadata=column("approach"))
    kind: str
    framework: str
    network: str = field(metadata=column("network"))
    machines: int
    model: str = field(metadata=column("model"))
    image_size: int = field(metadata=column("px"))
    batch: int = field(metadata=column("batch"))
    ranks: int = field(metadata=column("ranks"))
    images_per_s: float = field(metadata=column("images/s", "{:.1f}"))
    images_per_s_q1: float = field(metadata=column("quartiles", "{:.1f}–{:.1f}", "images_per_s_q3"))
    images_per_s_q3: float
    efficiency: float = field(metadata=column("efficiency", "{:.1%}"))
    efficiency_q1: float
    efficiency_q3: float
    step_ms: float = field(metadata=column("step(ms)", "{:.1f}"))
    compute_ms: float = field(metadata=column("compute", "{:.1f}"))
    waiting_ms: float = field(metadata=column("waiting", "{:.1f}"))
    negotiation_ms: float | None = field(metadata=column("negotiation", "{:.1f}", none="–"))
    copies_ms: float | None = field(metadata=column("copies", "{:.1f}", none="–"))
    transfer_ms: float = field(metadata=column("transfer", "{:.1f}"))
    cpu_ms: float
    gradient_bytes: int
    bound_ms: float | None
    wrong: int = field(metadata=column("#wrong", wrong))
    steps: int
    load: float

    @property
    def configuration(self) -> Configuration:
        """The training that was measured, and where."""
        return Configuration(self.network, self.ranks, self.model, self.image_size, self.batch)


@dataclass
class Round:
    """One turn of one approach, in seconds per step: of the slowest rank, of the mean rank, and CPU time of all ranks.

    waiting: the mean over ranks and steps of how long a rank had its own gradients before the last rank had.
    negotiation, copies: the mean over the ranks, None where they are not known.
    """

    slowest: float
    mean: float
    cpu: float
    waiting: float
    negotiation: float | None = None
    copies: float | None = None


@dataclass
class Measured:
    """The measurements of one approach in one configuration."""

    gradient_bytes: int = 0
    wrong: int = 0
    rounds: list[Round] = field(default_factory=list)


def summary(rounds: list[Round], alone: list[Round], images: int) -> dict[str, Any]:
    """Return the figures of a row from the rounds of an approach and of the same ranks without exchange.

    images: of all ranks together, in a step.
    """
    step = quantiles([one.slowest for one in rounds], n=4, method="inclusive")
    shares = [other.slowest / one.slowest for one, other in zip(rounds, alone, strict=True)]
    efficiency = quantiles(shares, n=4, method="inclusive")
    compute = median(one.mean for one in alone)
    waiting = median(one.waiting for one in rounds) if rounds is not alone else max(0.0, step[1] - compute)
    negotiation = _median([one.negotiation for one in rounds])
    copies = _median([one.copies for one in rounds])
    rest = step[1] - compute - waiting - (negotiation or 0.0) - (copies or 0.0)
    return {
        "images_per_s": round(images / step[1], 3),
        "images_per_s_q1": round(images / step[2], 3),
        "images_per_s_q3": round(images / step[0], 3),
        "efficiency": round(efficiency[1], 4),
        "efficiency_q1": round(efficiency[0], 4),
        "efficiency_q3": round(efficiency[2], 4),
        "step_ms": _ms(step[1]),
        "compute_ms": _ms(compute),
        "waiting_ms": _ms(waiting),
        "negotiation_ms": None if negotiation is None else _ms(negotiation),
        "copies_ms": None if copies is None else _ms(copies),
        "transfer_ms": _ms(max(0.0, rest)),
        "cpu_ms": _ms(median(one.cpu for one in rounds)),
    }


def of_replies(replies: list[Message], steps: int) -> Round:
    """Return the figures of a turn of `steps` steps from the answers of all ranks."""
    seconds = [float(reply["seconds"]) for reply in replies]
    exposed = [part for reply in replies for part in _exposed(reply, [other["ready"] for other in replies])]
    return Round(
        slowest=max(seconds) / steps,
        mean=fmean(seconds) / steps,
        cpu=sum(float(reply["cpu_seconds"]) for reply in replies) / steps,
        waiting=_waiting([reply["ready"] for reply in replies]),
        negotiation=fmean(negotiation for negotiation, _ in exposed) if exposed else None,
        copies=fmean(copies for _, copies in exposed) if exposed else None,
    )


def _waiting(ready: list[list[float]]) -> float:
    """Return how long the mean rank waits for the last one. ready: for each rank, a moment of each step."""
    return fmean(max(step) - fmean(step) for step in zip(*ready, strict=True))


def _exposed(reply: Message, ready: list[list[float]]) -> Iterator[tuple[float, float]]:
    """Yield for each step of a rank the seconds of negotiation and of copies that nothing hides; nothing if unknown.

    They are of the time from when the last rank has its own gradients until the rank's last request is over. While a
    request is reduced, what else happens is hidden.
    """
    if reply.get("requests") is None:
        return
    for step, end in enumerate(reply["over"]):
        begin = max(one[step] for one in ready)
        # Requests of a step are over before it is; what is left of the earlier ones lies before `begin`.
        mine = [[max(moment, begin) for moment in request] for request in reply["requests"] if request[-1] <= end]
        carried = covered((agreed, done) for agreed, _, _, done in mine)
        reduced = covered((packed, over) for _, packed, over, _ in mine)
        yield max((done for *_, done in mine), default=begin) - begin - carried, carried - reduced


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
