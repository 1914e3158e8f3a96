"""One rank's part of a training, by one of Paceline's faces; and the whole of it in one process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from training_faces import face, whole
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
    model = Model(start(training))
    trained = face(training, model)
    optimizer, schedule = trained.optimizer, training.scheduled(trained.optimizer)
    optimizer.zero_grad()
    for step in training.steps:
        given = [gradient(training, step, rank, number) for number in range(len(training.shapes))]
        with trained.no_sync() if step.accumulates else contextlib.nullcontext():
            trained.forward(given).backward()
        if not step.accumulates:
            _take(training, model, optimizer, schedule)
    return [whole(value.detach()).clone() for value in model.values]


def _take(training: Training, model: Model, optimizer: Any, schedule: Any) -> None:
    """A step of the optimizer, unless it is skipped."""
    if not training.skips or finite(model, optimizer):
        optimizer.step()
        if schedule is not None:
            schedule.step()
    optimizer.zero_grad()


def finite(model: Model, optimizer: Any) -> bool:
    """Whether all mean gradients are finite, on every rank."""
    if hasattr(optimizer, "clip_grad_norm_"):
        return bool(torch.isfinite(optimizer.clip_grad_norm_(float("inf"))))
    return all(bool(torch.isfinite(whole(value.grad)).all()) for value in model.values if value.grad is not None)


def serial(training: Training) -> list[Tensor]:
    """The same training in one process."""
    model = Model(start(training))
    optimizer = training.made(model.parameters())
    held: list[list[Tensor | None]] = [[None] * len(training.shapes) for _ in range(training.size)]
    schedule = training.scheduled(optimizer)
    for step in training.steps:
        for rank in range(training.size):
            held[rank] = [_added(one, gradient(training, step, rank, number)) for number, one in enumerate(held[rank])]
        if step.accumulates:
            continue
        for number, value in enumerate(model.values):
            value.grad = _mean([each[number] for each in held], value, _SENT.get(training.hook or ""))
        _take(training, model, optimizer, schedule)
        held = [[None] * len(training.shapes) for _ in range(training.size)]
    return [value.detach().clone() for value in model.values]


_SENT = {"builtin float16": torch.float16, "float16": torch.float16}
"""In which dtype a hook exchanges gradients."""


def _added(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _mean(gradients: Sequence[Tensor | None], value: Tensor, sent: torch.dtype | None) -> Tensor | None:
    if all(one is None for one in gradients):
        return None
    there = [torch.zeros_like(value) if one is None else one for one in gradients]
    if sent is None:
        return sum(there[1:], there[0]) / len(there)
    parts = [one.to(sent) / len(there) for one in there]
    return sum(parts[1:], parts[0]).to(value.dtype)
