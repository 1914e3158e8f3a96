"""One rank's part of a training, by one of Paceline's faces; and the whole of it in one process."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from training_faces import Face, face, whole
from training_programs import Step, Training, gradient, start


class Trained(NamedTuple):
    """The parameters at the end, and of each exchange whether all gradients were finite, and which there were.

    refused: why the face did not take the optimizer; then there is nothing else.
    """

    parameters: list[Tensor]
    exchanges: list[tuple[bool, tuple[bool, ...]]]
    refused: str = ""


class Model(nn.Module):
    """Its loss has whatever gradients are handed to it."""

    def __init__(self, values: Sequence[Tensor]) -> None:
        super().__init__()
        self.values = nn.ParameterList([nn.Parameter(value.clone()) for value in values])

    def forward(self, gradients: Sequence[Tensor | None]) -> Tensor:
        pairs = zip(self.values, gradients, strict=True)
        return torch.stack([(value * one).sum() for value, one in pairs if one is not None]).sum()


def run(rank: int, size: int, training: Training) -> Trained:
    """Train."""
    model = Model(start(training))
    try:
        trained = face(training, model)
    except ValueError as error:
        return Trained([], [], str(error))
    optimizer, schedule = trained.optimizer, training.scheduled(trained.optimizer)
    exchanges: list[tuple[bool, tuple[bool, ...]]] = []
    optimizer.zero_grad()
    with trained.all():
        for step in training.steps:
            given = [gradient(training, step, rank, number) for number in range(len(training.shapes))]
            if training.closure:
                _step_with_closure(model, trained, given, schedule)
                optimizer.zero_grad(set_to_none=not training.zeros)
                continue
            if training.moves:
                _move_gradients(model)
            with trained.no_sync() if step.accumulates else contextlib.nullcontext():
                trained.forward(given).backward()
            if not step.accumulates:
                trained.complete()
                exchanges.append(_go_on(training, step, model, optimizer, schedule))
    return Trained([whole(value.detach()).clone() for value in model.values], exchanges)


def _step_with_closure(model: Model, trained: Face, given: Sequence[Tensor | None], schedule: Any) -> None:
    def closure() -> Tensor:
        trained.optimizer.zero_grad()
        loss = trained.forward(given)
        loss.backward()
        return loss

    trained.optimizer.step(closure)
    if schedule is not None:
        schedule.step()


def _move_gradients(model: Model) -> None:
    """Give them other memory, as what changes a model's memory format does."""
    for value in model.values:
        if value.grad is not None:
            value.grad.data = value.grad.detach().clone()


def _go_on(
    training: Training, step: Step, model: Model, optimizer: Any, schedule: Any
) -> tuple[bool, tuple[bool, ...]]:
    """Do what follows an exchange, of which it returns what Trained has."""
    there = tuple(value.grad is not None for value in model.values)
    good = finite(model, optimizer) if training.skips else True
    if step.after == "step" and good:
        with getattr(optimizer, "skip_synchronize", contextlib.nullcontext)():
            optimizer.step()
        if schedule is not None:
            schedule.step()
    if step.after != "nothing":
        optimizer.zero_grad(set_to_none=step.after == "step" and not training.zeros)
    return good, there


def finite(model: Model, optimizer: Any) -> bool:
    """Whether all mean gradients are finite, on every rank."""
    if hasattr(optimizer, "clip_grad_norm_"):
        return bool(torch.isfinite(optimizer.clip_grad_norm_(float("inf"))))
    return all(bool(torch.isfinite(whole(value.grad)).all()) for value in model.values if value.grad is not None)


def serial(training: Training) -> Trained:
    """The same training in one process."""
    model = Model(start(training))
    optimizer = training.made(model.parameters())
    held: list[list[Tensor | None]] = [[None] * len(training.shapes) for _ in range(training.size)]
    schedule = training.scheduled(optimizer)
    exchanges: list[tuple[bool, tuple[bool, ...]]] = []
    for step in training.steps:
        for rank in range(training.size):
            held[rank] = [_added(one, gradient(training, step, rank, number)) for number, one in enumerate(held[rank])]
        if step.accumulates:
            continue
        for number, value in enumerate(model.values):
            value.grad = _mean([each[number] for each in held], value, _SENT.get(training.hook or ""))
        exchanges.append(_go_on(training, step, model, optimizer, schedule))
        left = [None if value.grad is None else value.grad.clone() for value in model.values]
        held = [list(left) for _ in range(training.size)]
    return Trained([value.detach().clone() for value in model.values], exchanges)


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
