"""A trial that finds out whether an optimizer works element by element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from paceline.torch.optimizers import uncounted


class OptimizerClass(Protocol):
    """A class of optimizers, as it is called."""

    __name__: str

    def __call__(self, params: Iterable[dict[str, object]], /, **defaults: object) -> Optimizer:
        """Make one."""


_STEPS = 8
_TOLERANCE = 1e-6
"""The largest error, as a share of the largest change, in float64."""


def require_element_wise(optimizer_class: OptimizerClass, options: Mapping[str, object]) -> None:
    """Raise ValueError unless a step on a tensor is the same as that on its two parts, of one optimizer or of two.

    options: of the optimizer's one group. Whatever is scaled by a norm of a parameter (LAMB, LARS), factors its moments
    (Adafactor, Muon), keeps statistics of all parameters (Prodigy) or of blocks of large ones, looks at angles (AdamP,
    SGDP), or tells parameters apart by their number or place fails.
    """
    for rows, columns, cut, gradients in (
        (8, 64, 200, _of_several_norms),
        (8, 64, 200, _across),
        (8, 64, 200, _across_later),
        (128, 128, 5004, _of_several_norms),  # no multiple of a block of 8 elements
    ):
        start = torch.linspace(-1, 2, rows * columns, dtype=torch.float64)
        drawn = [gradients(start, number) for number in range(_STEPS)]
        parts = [(start[:cut], [one[:cut] for one in drawn]), (start[cut:], [one[cut:] for one in drawn])]
        try:
            with uncounted():
                (whole,) = _stepped(optimizer_class, options, [(start.view(rows, columns), drawn)])
                apart = [_stepped(optimizer_class, options, [part])[0] for part in parts]
                together = _stepped(optimizer_class, options, parts)
        except Exception as error:
            raise ValueError(f"{_refusal(optimizer_class)}: it does not step on such a part ({error})") from error
        largest = _TOLERANCE * (whole.view(-1) - start).abs().max()
        if any((torch.cat(found) - whole.view(-1)).abs().max() > largest for found in (apart, together)):
            raise ValueError(f"{_refusal(optimizer_class)}: its step on a tensor is not its step on the tensor's parts")


def _of_several_norms(start: Tensor, number: int) -> Tensor:
    """Parts of different norms, as layers have them."""
    steps = torch.arange(start.numel(), dtype=start.dtype)
    return (steps + number).sin() * (1 + steps)


def _across(start: Tensor, number: int) -> Tensor:
    """At right angles to the parameter, which grows evenly along its rows, as the signs of the gradient are not."""
    pattern = torch.tensor([2.0, -3.0, 0.0, 1.0], dtype=start.dtype)
    return pattern.repeat(start.numel() // 4) * (1 + number)


def _across_later(start: Tensor, number: int) -> Tensor:
    """The same, once a moment has been made that is not at right angles to it."""
    return _across(start, number) if number else 1 + start


def _stepped(
    optimizer_class: OptimizerClass, options: Mapping[str, object], given: Sequence[tuple[Tensor, Sequence[Tensor]]]
) -> list[Tensor]:
    """Return these tensors as one optimizer changes them by their gradients."""
    tensors = [start.clone().requires_grad_() for start, _ in given]
    optimizer = optimizer_class([{**options, "params": tensors}])
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = 0.1  # a schedule may begin with zero
    for number in range(_STEPS):
        for tensor, (_, gradients) in zip(tensors, given, strict=True):
            tensor.grad = gradients[number].clone().view(tensor.shape)
        optimizer.step()
    return [tensor.detach() for tensor in tensors]


def _refusal(optimizer_class: OptimizerClass) -> str:
    return (
        f"{optimizer_class.__name__} does not work element by element, but ranks own parts of parameters "
        "(torch's ZeroRedundancyOptimizer gives each rank whole ones)"
    )
