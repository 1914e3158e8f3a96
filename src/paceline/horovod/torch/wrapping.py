"""Turns an optimizer into one of a derived class."""

from __future__ import annotations

from typing import Any

import torch

TOO_OFTEN = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
    "backward_passes_per_step to accumulate gradients locally."
)
"""The error for more backward passes than `backward_passes_per_step`."""
TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
    "This is prohibited as it can cause a race condition."
)
"""The error for `zero_grad` between a backward pass and its step."""


def wrapped(optimizer: torch.optim.Optimizer, front: type) -> Any:
    """Return an optimizer that shares its parameter groups and state; its class has `front` before the optimizer's
    class.

    Attributes `step` and `zero_grad` set on the instance, for example by a scheduler, stay with the first optimizer.
    """
    own = type(optimizer)
    made: Any = object.__new__(type(own.__name__, (front, own), {"__module__": own.__module__}))
    made.__dict__.update({name: value for name, value in vars(optimizer).items() if name not in ("step", "zero_grad")})
    return made
