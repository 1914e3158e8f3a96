"""From the times that the ranks noted to the figures in the table."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Figure:
    """Median over the measured epochs, and half the distance between their quartiles."""

    median: float
    spread: float


@dataclass(frozen=True)
class Figures:
    """What one backend did. Communication is averaged over the ranks: milliseconds per step, or seconds in all epochs.

    total: while at least one all-reduce was issued and not complete.
    transfer: the same, counted from the moment when the last rank had issued the all-reduce; before that, ranks wait
    for each other, which no backend can save them.
    exposed: how long backward stood still at its end, from the issue of the last all-reduce until all were complete.
    """

    images_per_second: Figure
    step_ms: Figure
    total_ms: Figure
    transfer_ms: Figure
    exposed_ms: Figure
    all_s: float
    total_s: float
    exposed_s: float
    buckets: int


def figures(spans: Tensor, times: Tensor, batch: int) -> Figures:
    """Figures of one backend.

    spans: int64 [ranks, epochs, 2], begin and end of each epoch in ns.
    times: int64 [ranks, epochs, steps, 1 + 2 × buckets] as `Meter.take` gives them.
    batch: images per step, all ranks together.
    """
    steps = times.shape[2]
    buckets = (times.shape[3] - 1) // 2
    backward_end = times[..., 0]
    issued = times[..., 1 : 1 + buckets]
    completed = times[..., 1 + buckets :]
    seconds = (spans[..., 1].amax(0) - spans[..., 0].amin(0)).double() / 1e9
    last_issued = issued.amax(0, keepdim=True)
    total, exposed = _covered(issued, completed), backward_end - issued[..., -1]
    return Figures(
        images_per_second=_figure(steps * batch / seconds),
        step_ms=_figure(seconds / steps * 1e3),
        total_ms=_per_step(total),
        transfer_ms=_per_step(_covered(last_issued.expand_as(completed), completed)),
        exposed_ms=_per_step(exposed),
        all_s=seconds.sum().item(),
        total_s=total.sum().item() / len(times) / 1e9,
        exposed_s=exposed.sum().item() / len(times) / 1e9,
        buckets=buckets,
    )


def _covered(begins: Tensor, ends: Tensor) -> Tensor:
    """Length of the union of the intervals in the last dimension, which are sorted by their begins."""
    earlier_ends = ends.cummax(-1).values.roll(1, -1)
    earlier_ends[..., 0] = begins[..., 0]
    return (ends - torch.maximum(begins, earlier_ends)).clamp(min=0).sum(-1)


def _per_step(nanoseconds: Tensor) -> Figure:
    return _figure(nanoseconds.double().mean(dim=(0, 2)) / 1e6)


def _figure(epochs: Tensor) -> Figure:
    low, median, high = epochs.quantile(torch.tensor([0.25, 0.5, 0.75], dtype=epochs.dtype)).tolist()
    return Figure(median, (high - low) / 2)
