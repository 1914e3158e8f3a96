"""Whether an optimizer works element by element, found out by trying it."""

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


_SHAPE = (8, 64)
_STEPS = 8
_TOLERANCE = 1e-6
"""The largest error, as a share of the largest change, in float64."""


def require_element_wise(optimizer_class: OptimizerClass, options: Mapping[str, object]) -> None:
    """Raise ValueError unless a step on a tensor is the same as the steps of two optimizers on the tensor's halves.

    options: of the optimizer's one group. Whatever is scaled by a norm of a parameter (LAMB, LARS), factors its moments
    (Adafactor, Muon), keeps statistics of all parameters (Prodigy), or looks at angles (AdamP) fails.
    """
    start = torch.linspace(-1, 2, _SHAPE[0] * _SHAPE[1], dtype=torch.float64)
    for gradients in (_of_several_norms, _across):
        whole, halves = start.clone().view(_SHAPE), list(start.clone().chunk(2))
        drawn = [gradients(start, number) for number in range(_STEPS)]
        try:
            with uncounted():
                _step(optimizer_class, options, whole, drawn)
                for at, half in enumerate(halves):
                    _step(optimizer_class, options, half, [gradient.chunk(2)[at] for gradient in drawn])
        except Exception as error:
            raise ValueError(f"{_refusal(optimizer_class)}: it does not step on such a part ({error})") from error
        expected = whole.view(-1) - start
        if (torch.cat(halves) - start - expected).abs().max() > _TOLERANCE * expected.abs().max():
            raise ValueError(f"{_refusal(optimizer_class)}: its step on a tensor is not its step on the tensor's parts")


def _of_several_norms(start: Tensor, number: int) -> Tensor:
    """Parts of different norms, as layers have them."""
    steps = torch.arange(start.numel(), dtype=start.dtype)
    return (steps + number).sin() * (1 + steps)


def _across(start: Tensor, number: int) -> Tensor:
    """At right angles to the parameter, which grows evenly along its rows, as the signs of the gradient are not."""
    pattern = torch.tensor([2.0, -3.0, 0.0, 1.0], dtype=start.dtype)
    return pattern.repeat(start.numel() // 4) * (1 + number)


def _step(
    optimizer_class: OptimizerClass, options: Mapping[str, object], tensor: Tensor, gradients: Sequence[Tensor]
) -> None:
    optimizer = optimizer_class([{**options, "params": [tensor.requires_grad_()]}])
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = 0.1  # a schedule may begin with zero
    for gradient in gradients:
        tensor.grad = gradient.clone().view(tensor.shape)
        optimizer.step()
    tensor.requires_grad_(False)


def _refusal(optimizer_class: OptimizerClass) -> str:
    return (
        f"{optimizer_class.__name__} does not work element by element, but ranks own parts of parameters "
        "(torch's ZeroRedundancyOptimizer gives each rank whole ones)"
    )
