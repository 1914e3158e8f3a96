"""Whether an optimizer works element by element, found out by trying it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
_STEPS = 2
_TOLERANCE = 1e-6
"""The largest error, as a share of the largest change, in float64."""


def require_element_wise(optimizer_class: OptimizerClass, options: Mapping[str, object]) -> None:
    """Raise ValueError unless a step on a tensor is the same as a step on the tensor's halves.

    options: of the optimizer's one group. Whatever is scaled by a norm of a parameter (LAMB, LARS), or factors its
    moments (Adafactor, Muon), fails.
    """
    start = torch.linspace(-1, 2, _SHAPE[0] * _SHAPE[1], dtype=torch.float64)
    whole, parts = start.clone().view(_SHAPE), list(start.clone().chunk(2))
    try:
        with uncounted():
            _step(optimizer_class, options, [whole])
            _step(optimizer_class, options, parts)
    except Exception as error:
        raise ValueError(f"{_refusal(optimizer_class)}: it does not step on such a part ({error})") from error
    expected = whole.view(-1) - start
    if (torch.cat(parts) - start - expected).abs().max() > _TOLERANCE * expected.abs().max():
        raise ValueError(f"{_refusal(optimizer_class)}: its step on a tensor is not its step on the tensor's parts")


def _step(optimizer_class: OptimizerClass, options: Mapping[str, object], tensors: list[Tensor]) -> None:
    optimizer = optimizer_class([{**options, "params": [tensor.requires_grad_() for tensor in tensors]}])
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = 0.1  # a schedule may begin with zero
    for number in range(_STEPS):
        begin = 0
        for tensor in tensors:
            # Parts of different norms, as layers have them.
            steps = torch.arange(begin, begin + tensor.numel(), dtype=tensor.dtype)
            tensor.grad = ((steps + number).sin() * (1 + steps)).view(tensor.shape)
            begin += tensor.numel()
        optimizer.step()
    for tensor in tensors:
        tensor.requires_grad_(False)


def _refusal(optimizer_class: OptimizerClass) -> str:
    return (
        f"{optimizer_class.__name__} does not work element by element, but ranks own parts of parameters "
        "(torch's ZeroRedundancyOptimizer gives each rank whole ones)"
    )
