"""One rank's part of a training, by one of Paceline's faces; and the whole of it in one process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from training_programs import Training, gradient, start


class Model(nn.Module):
    """Its loss has whatever gradients are handed to it."""

    def __init__(self, values: Sequence[Tensor]) -> None:
        super().__init__()
        self.values = nn.ParameterList([nn.Parameter(value.clone()) for value in values])

    def forward(self, gradients: Sequence[Tensor | None]) -> Tensor:
        pairs = zip(self.values, gradients, strict=True)
        return torch.stack([(value * one).sum() for value, one in pairs if one is not None]).sum()


def run(rank: int, size: int, training: Training) -> list[Tensor]:
    """Train; returns the parameters at the end."""
    from paceline.torch import GradientBuckets, ShardedOptimizer

    model = Model(start(training))
    optimizer: Any
    forward: Callable[..., Tensor] = model
    if training.face == "sharded":
        kind: Any = getattr(torch.optim, training.optimizer)
        optimizer = holder = ShardedOptimizer(model.parameters(), kind, **training.wishes)
    elif training.face == "buckets":
        holder, optimizer = GradientBuckets(model), training.made(model.parameters())
    else:
        forward = holder = DistributedDataParallel(model)
        optimizer = training.made(model.parameters())
    optimizer.zero_grad()
    for step in training.steps:
        given = [gradient(training, step, rank, number) for number in range(len(training.shapes))]
        with holder.no_sync() if step.accumulates else contextlib.nullcontext():
            forward(given).backward()
        if step.accumulates:
            continue
        if not training.skips or finite(model, optimizer):
            optimizer.step()
        optimizer.zero_grad()
    return [value.detach().clone() for value in model.values]


def finite(model: Model, optimizer: Any) -> bool:
    """Whether all mean gradients are finite, on every rank."""
    if hasattr(optimizer, "clip_grad_norm_"):
        return bool(torch.isfinite(optimizer.clip_grad_norm_(float("inf"))))
    return all(bool(torch.isfinite(value.grad).all()) for value in model.values if value.grad is not None)


def serial(training: Training) -> list[Tensor]:
    """The same training in one process."""
    model = Model(start(training))
    optimizer = training.made(model.parameters())
    held: list[list[Tensor | None]] = [[None] * len(training.shapes) for _ in range(training.size)]
    for step in training.steps:
        for rank in range(training.size):
            held[rank] = [_added(one, gradient(training, step, rank, number)) for number, one in enumerate(held[rank])]
        if step.accumulates:
            continue
        for number, value in enumerate(model.values):
            value.grad = _mean([each[number] for each in held], value)
        if not training.skips or finite(model, optimizer):
            optimizer.step()
        held = [[None] * len(training.shapes) for _ in range(training.size)]
    return [value.detach().clone() for value in model.values]


def _added(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _mean(gradients: Sequence[Tensor | None], value: Tensor) -> Tensor | None:
    there = [torch.zeros_like(value) if one is None else one for one in gradients]
    return None if all(one is None for one in gradients) else sum(there[1:], there[0]) / len(there)
