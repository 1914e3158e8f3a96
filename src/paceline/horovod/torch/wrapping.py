"""Turns an optimizer into one of a derived class."""

from __future__ import annotations

from collections.abc import Callable
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

    The two still share them once either has loaded a state, so that a scheduler of the first works for both.
    Attributes `step` and `zero_grad` set on the instance, for example by a scheduler, stay with the first optimizer.
    """
    own = type(optimizer)
    made: Any = object.__new__(type(own.__name__, (front, own), {"__module__": own.__module__}))
    made.__dict__.update({name: value for name, value in vars(optimizer).items() if name not in ("step", "zero_grad")})
    optimizer.register_load_state_dict_post_hook(_keeper(optimizer.param_groups, optimizer.state))
    return made


def _keeper(groups: list[dict[str, Any]], state: Any) -> Callable[[torch.optim.Optimizer], None]:
    """Return a hook that puts what an optimizer has loaded into these groups and this state; hooks are shared, too."""

    def keep(optimizer: torch.optim.Optimizer) -> None:
        if optimizer.param_groups is not groups:
            for own, loaded in zip(groups, optimizer.param_groups, strict=True):
                own.clear()
                own.update(loaded)
            optimizer.param_groups = groups
        if optimizer.state is not state:
            state.clear()
            state.update(optimizer.state)
            optimizer.state = state

    return keep
