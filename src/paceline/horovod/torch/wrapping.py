"""How an optimizer becomes one of the same class with more to it."""

from __future__ import annotations

from typing import Any

import torch

TOO_OFTEN = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
    "backward_passes_per_step to accumulate gradients locally."
)
TOO_EARLY = (
    "optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or optimizer.synchronize(). "
    "This is prohibited as it can cause a race condition."
)


def wrapped(optimizer: torch.optim.Optimizer, front: type) -> Any:
    """An optimizer of a new class, `front` before `optimizer`'s own, that shares its parameter groups and state.

    What somebody put on the instance, as a scheduler does with `step`, stays with the first optimizer.
    """
    own = type(optimizer)
    made: Any = object.__new__(type(own.__name__, (front, own), {"__module__": own.__module__}))
    made.__dict__.update({name: value for name, value in vars(optimizer).items() if name not in ("step", "zero_grad")})
    return made
