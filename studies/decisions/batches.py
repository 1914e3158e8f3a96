"""Simulated ranks that read and share batches.

ahead: a step takes as long as reading a batch does in the mean, or 1.25 times as long; one batch in 20 takes five times
as long to read as the others, as where files come from a network, and nothing else varies.
shares: four ranks, of which one is half as fast, share batches of 256 by their speed; each batch has 5 % of noise on
each rank, and every 500 batches another rank is the slow one.
"""

from __future__ import annotations

from random import Random
from statistics import fmean

from decisions.subject import Subject
from paceline.calibration import torch as record
from paceline.torch.data.ahead import batches_ahead
from paceline.torch.data.shares import Shares, split
from paceline.torch.data.speed import agreed

BATCHES = 5000
RANKS, SAMPLES, CHANGE = 4, 256, 500


def ahead() -> dict[str, float]:
    return {f"over the step, of {step:g}": _waiting(step) for step in (1.0, 1.25)}


def _waiting(step: float) -> float:
    """The time of a job over that of its steps."""
    chance, most = Random(0), batches_ahead(1)
    taken = [0.0] * BATCHES
    read = end = 0.0
    for batch in range(BATCHES):
        begun = max(read, taken[batch - most] if batch >= most else 0.0)
        read = begun + (5 if chance.random() < 1 / 20 else 1) / 1.2
        taken[batch] = max(end, read)
        end = taken[batch] + step
    return end / (BATCHES * step)


def shares() -> dict[str, float]:
    chance, held = Random(0), Shares([1.0] * RANKS)
    weights = [1.0] * RANKS
    seen: list[list[float]] = [[] for _ in weights]
    took = []
    for batch in range(BATCHES):
        slow = batch // CHANGE % RANKS
        rates = [(0.5 if rank == slow else 1) * max(0.1, 1 + chance.gauss(0, 0.05)) for rank in range(RANKS)]
        if batch and batch % record.SPEED_WINDOW == 0:
            speeds = [sorted(each)[len(each) // 2] for each in seen]
            held.change(batch + record.MOST_AHEAD + 1, agreed(speeds, held.at(batch)))
            seen = [[] for _ in weights]
        for rank, rate in enumerate(rates):
            seen[rank].append(rate)
        took.append(max(count / rate for count, rate in zip(split(SAMPLES, held.at(batch)), rates, strict=True)))
    return {"steps over the best": fmean(took) / (SAMPLES / (RANKS - 0.5))}


SUBJECTS = {
    "ahead": Subject(record, ("MOST_AHEAD",), ahead),
    "shares": Subject(record, ("SPEED_WINDOW",), shares),
}
