"""How long a training step takes where batches come to the ranks in several ways, and what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean, median, quantiles

from paceline.bench.interleave import turns
from paceline.bench.ranks.wire import Message
from paceline.bench.session import Session
from paceline.bench.systems import System

APPROACHES = ("master", "splitting", "pre_loading", "ddp_gloo")
"""A master that splits each batch, broadcasts the parameters and gathers the gradients; the same with batches that the
machine's ranks share, made when they are asked for; the same with batches that are made ahead; and DDP over Gloo, where
each rank makes its own part. Each is an approach of `ranks/data_training.py`."""
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


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network, trained in one way; times are milliseconds per step.

    step_ms: median over the rounds of the slowest rank's mean step, with quartiles. batch_bytes: the bytes of a batch
    that came to devices, of all devices together, as they were counted there. hidden_share: the share of the loading
    that the ranks did not wait for, the mean over ranks and rounds.
    parameter_bytes: of the network. wrong: parameters whose gradient was wrong in the check. The others are the paper's
    six categories, medians over the rounds of those of rank 0, which is the master where there is one.
    """

    approach: str
    model: str
    devices: int
    step_ms: float
    step_ms_q1: float
    step_ms_q3: float
    batch_bytes: int
    hidden_share: float
    host_to_device_ms: float
    peer_to_peer_ms: float
    broadcast_ms: float
    compute_ms: float
    reduce_ms: float
    other_ms: float
    parameter_bytes: int
    wrong: int


@dataclass
class _Rounds:
    """What all rounds of one approach found."""

    approach: str
    bytes: int
    wrong: int
    replies: list[list[Message]] = field(default_factory=list)


def system(batch: int) -> System:
    """Return the ranks that train. batch: samples of all ranks together."""
    return System("paceline", "torch", ".data_training:DataTraining", {"batch": str(batch)})


def measure(
    session: Session, models: Sequence[str], rounds: int, steps: int, progress: Callable[[str], None]
) -> list[Row]:
    """Check each approach's gradients, then let each train `steps` steps in every round. Raises SessionFailed."""
    rows = []
    for model in models:
        found = []
        for approach in APPROACHES:
            progress(f"{model}, checking {approach}")
            replies = session.ask(do="check", model=model, approach=approach)
            found.append(_Rounds(approach, replies[0]["bytes"], sum(reply["wrong"] for reply in replies)))
        for number in range(rounds):
            for one in turns(found, number):
                progress(f"{model}, round {number + 1} of {rounds}, {one.approach}")
                one.replies.append(session.ask(do="train", model=model, approach=one.approach, steps=steps))
        rows += [row(one.approach, model, one.replies, steps, one.bytes, one.wrong) for one in found]
    return rows


def row(approach: str, model: str, rounds: Sequence[Sequence[Message]], steps: int, nbytes: int, wrong: int) -> Row:
    """Return the figures of the rounds' answers, one of each rank."""
    times = [1e3 * max(reply["seconds"] for reply in replies) / steps for replies in rounds]
    first, middle, third = quantiles(times, n=4, method="inclusive")
    hidden = [
        max(0.0, 1 - reply["categories"]["host_to_device"] / reply["loading"])
        for replies in rounds
        for reply in replies
        if reply["loading"]
    ]
    categories = {
        f"{name}_ms": round(1e3 * median(replies[0]["categories"][name] for replies in rounds) / steps, 3)
        for name in rounds[0][0]["categories"]
    }
    return Row(
        approach=approach,
        model=model,
        devices=len(rounds[0]),
        step_ms=round(middle, 3),
        step_ms_q1=round(first, 3),
        step_ms_q3=round(third, 3),
        batch_bytes=sum(reply["moved"] for reply in rounds[0]) // steps,
        hidden_share=round(mean(hidden), 4),
        parameter_bytes=nbytes,
        wrong=wrong,
        **categories,
    )
