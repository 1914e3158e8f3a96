"""Computes the figures of the table from the times that the ranks recorded."""

import torch
from torch import Tensor

from paceline.cli.demo.figure import Figure, Figures, figure


def step_times(spans: Tensor, steps: int) -> Tensor:
    """Return the mean milliseconds of a step in each epoch, float64 [epochs].

    spans: int64 [ranks, epochs, 2], begin and end in ns. steps: steps per epoch.
    """
    return (spans[..., 1].amax(0) - spans[..., 0].amin(0)).double() / steps / 1e6


def figures(step_ms: Tensor, without_ms: Tensor, times: Tensor, batch: int) -> Figures:
    """Return the figures of one backend.

    step_ms: float64 [epochs] from `step_times`; without_ms: the same of the training without all-reduces. times: int64
    [ranks, epochs, steps, 1 + 2 × buckets] in ns, as `Meter.take` returns them. batch: images per step, all ranks
    together.
    """
    buckets = (times.shape[3] - 1) // 2
    backward_end = times[..., 0]
    issued = times[..., 1 : 1 + buckets]
    completed = times[..., 1 + buckets :]
    last_issued = issued.amax(0, keepdim=True)
    total, exposed = _covered(issued, completed), backward_end - issued[..., -1]
    return Figures(
        images_per_second=figure((batch * 1e3 / step_ms).tolist()),
        step_ms=figure(step_ms.tolist()),
        added_ms=figure((step_ms - without_ms).tolist()),
        total_ms=_per_step(total),
        transfer_ms=_per_step(_covered(last_issued.expand_as(completed), completed)),
        exposed_ms=_per_step(exposed),
        total_s=total.sum().item() / len(times) / 1e9,
        exposed_s=exposed.sum().item() / len(times) / 1e9,
        buckets=buckets,
    )


def _covered(begins: Tensor, ends: Tensor) -> Tensor:
    """Return the length of the union of the intervals in the last dimension, which are sorted by their begins."""
    earlier_ends = ends.cummax(-1).values.roll(1, -1)
    earlier_ends[..., 0] = begins[..., 0]
    return (ends - torch.maximum(begins, earlier_ends)).clamp(min=0).sum(-1)


def _per_step(nanoseconds: Tensor) -> Figure:
    return figure((nanoseconds.double().mean(dim=(0, 2)) / 1e6).tolist())
