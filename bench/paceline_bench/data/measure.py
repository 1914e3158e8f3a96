"""The time of a training step, and its parts, where data come to devices in several ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from paceline.lab.lab import Lab, Traffic
from paceline_bench.interleave import turns
from paceline_bench.ranks.wire import Message
from paceline_bench.session import Session
from paceline_bench.systems import System
from paceline_bench.table import column, wrong

APPROACHES = ("master", "splitting", "pre_loading", "three_in_one", "ddp_gloo", "horovod_fp16")
"""A master that splits each batch, broadcasts the parameters and gathers the gradients; the same with batches that the
host cuts; with batches that come while devices compute, too; with compressed parameters, too; DDP over Gloo; and
Horovod's API with gradients as float16. Each is an approach of `ranks/data_training.py`."""
NETWORKS = (
    "VGG-19",
    "VGG-16",
    "AlexNet",
    "ResNet-34",
    "ResNet-50",
    "MobileNet v2",
    "MNASNet 1.3",
    "BERT-large",
)
"""Those of `ranks/data_networks.py`."""
CATEGORIES = {
    "host_to_device_ms": "HtoD",
    "peer_to_peer_ms": "PtoP",
    "broadcast_ms": "broadcast",
    "compute_ms": "FP+BP",
    "reduce_ms": "reduce",
    "other_ms": "other",
}
"""The paper's six categories: the fields of `Row`, with the paper's names."""
_COUNTED = 3
"""Batches whose bytes are counted."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network, trained in one way; times are milliseconds per step.

    step_ms: median over the rounds of the slowest device's mean step, with quartiles. batch_bytes: the bytes of a
    batch on the links of all devices together, by the kernel's counters. hidden_share: the share of a batch's way, as
    long as it is with "splitting", that the master does not wait for: the median over the rounds. to_master: the median
    over the rounds of the step's time over that of the master. parameter_bytes: of the network. wrong: parameters
    whose gradient was wrong in the check. The others are the paper's six categories, medians over the rounds of those
    of the first device, which is the master where there is one.
    """

    approach: str = field(metadata=column("approach"))
    model: str = field(metadata=column("network"))
    devices: int
    step_ms: float = field(metadata=column("step(ms)", "{:.1f}"))
    step_ms_q1: float = field(metadata=column("quartiles", "{:.1f}–{:.1f}", "step_ms_q3"))
    step_ms_q3: float
    to_master: float = field(metadata=column("to master", "{:.2f}×"))
    batch_bytes: int = field(metadata=column("batch(MB)", "{:.3f}", unit=1e6))
    hidden_share: float = field(metadata=column("hidden", "{:.1%}"))
    host_to_device_ms: float = field(metadata=column(CATEGORIES["host_to_device_ms"], "{:.1f}"))
    peer_to_peer_ms: float = field(metadata=column(CATEGORIES["peer_to_peer_ms"], "{:.1f}"))
    broadcast_ms: float = field(metadata=column(CATEGORIES["broadcast_ms"], "{:.1f}"))
    compute_ms: float = field(metadata=column(CATEGORIES["compute_ms"], "{:.1f}"))
    reduce_ms: float = field(metadata=column(CATEGORIES["reduce_ms"], "{:.1f}"))
    other_ms: float = field(metadata=column(CATEGORIES["other_ms"], "{:.1f}"))
    parameter_bytes: int
    wrong: int = field(metadata=column("#wrong", wrong))


@dataclass
class Rounds:
    """The results of all rounds of one approach. replies: of the devices, for each round."""

    approach: str
    parameter_bytes: int
    batch_bytes: int
    wrong: int
    replies: list[list[Message]] = field(default_factory=list)

    def seconds(self) -> list[float]:
        """The time of the slowest device in each round."""
        return [max(reply["seconds"] for reply in replies) for replies in self.replies]

    def waited(self) -> list[float]:
        """The seconds in each round that the first device waited for batches."""
        return [float(replies[0]["categories"]["host_to_device"]) for replies in self.replies]


def system(batch: int) -> System:
    """Return the ranks that train. batch: samples of all devices together."""
    return System("paceline", "torch", ".data_training:DataTraining", {"batch": str(batch)})


def measure(
    session: Session, lab: Lab, models: Sequence[str], rounds: int, steps: int, progress: Callable[[str], None]
) -> list[Row]:
    """Check each approach's gradients and count its bytes, then let each train `steps` steps in every round.

    The session's last rank is the host. Raises SessionFailed.
    """
    rows = []
    for model in models:
        found = []
        for approach in APPROACHES:
            progress(f"{model}, checking {approach}")
            *replies, _ = session.ask(do="check", model=model, approach=approach)
            before = lab.traffic()
            session.ask(do="feed", model=model, approach=approach, batches=_COUNTED)
            moved = _to_devices(lab.traffic()) - _to_devices(before)
            wrong = sum(reply["wrong"] for reply in replies)
            found.append(Rounds(approach, replies[0]["bytes"], moved // _COUNTED, wrong))
        for number in range(rounds):
            for one in turns(found, number):
                progress(f"{model}, round {number + 1} of {rounds}, {one.approach}")
                *replies, _ = session.ask(do="train", model=model, approach=one.approach, steps=steps)
                one.replies.append(replies)
        rows += made(model, found, steps)
    return rows


def made(model: str, found: Sequence[Rounds], steps: int) -> list[Row]:
    """Return the rows of a network. steps: of each round."""
    by_name = {one.approach: one for one in found}
    return [_row(model, one, by_name["master"], by_name["splitting"], steps) for one in found]


def _row(model: str, one: Rounds, master: Rounds, splitting: Rounds, steps: int) -> Row:
    first, middle, third = (1e3 * each / steps for each in quantiles(one.seconds(), n=4, method="inclusive"))
    categories = {
        name: round(
            median(1e3 * replies[0]["categories"][name.removesuffix("_ms")] for replies in one.replies) / steps, 3
        )
        for name in CATEGORIES
    }
    hidden = median(1 - mine / whole for mine, whole in zip(one.waited(), splitting.waited(), strict=True))
    return Row(
        approach=one.approach,
        model=model,
        devices=len(one.replies[0]),
        step_ms=round(middle, 3),
        step_ms_q1=round(first, 3),
        step_ms_q3=round(third, 3),
        to_master=round(median(mine / its for mine, its in zip(one.seconds(), master.seconds(), strict=True)), 4),
        batch_bytes=one.batch_bytes,
        hidden_share=round(max(0.0, hidden), 4) if one.approach not in _ON_DEMAND else 0.0,
        parameter_bytes=one.parameter_bytes,
        wrong=one.wrong,
        **categories,
    )


_ON_DEMAND = ("master", "splitting", "ddp_gloo", "horovod_fp16")
"""The approaches whose batches begin their way when they are needed, so that nothing of it is hidden."""


def _to_devices(traffic: Sequence[Traffic]) -> int:
    """Return the bytes that all machines but the last one, the host, have received."""
    return sum(link.down for link in traffic[:-1])
