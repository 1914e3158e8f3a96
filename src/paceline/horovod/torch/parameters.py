"""Gives every rank the same model and optimizer state before training starts or continues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from paceline.horovod.process_sets import global_process_set
from paceline.horovod.torch.broadcast import start
from paceline.horovod.torch.objects import broadcast_object
from paceline.horovod.torch.waiting import synchronize_all


def broadcast_parameters(params: Mapping[str, Tensor] | Iterable[Any], root_rank: int) -> None:
    """Give every rank the root's values of `params`, in place. Collective.

    params: `model.state_dict()`, `model.named_parameters()`, or tensors alone; the same number in the same order on all
    ranks. With PACELINE_COMPRESS=lossless, or auto where it pays, they are encoded between machines, bit for bit.

    Raises ValueError for anything else.
    """
    if isinstance(params, Mapping):
        named: list[Any] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, Tensor):
        named = [each if isinstance(each, tuple) else (None, each) for each in params]
    else:
        raise ValueError(f"invalid params of type: {type(params)}")
    for name, tensor in named:
        if not isinstance(tensor, Tensor):
            raise ValueError(f"params should hold tensors, but {name!r} is a {type(tensor).__name__}")
    synchronize_all([start(tensor, True, root_rank, name, global_process_set, True) for name, tensor in named])


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None
) -> None:
    """Give every rank the root's optimizer state and options such as the learning rate. Collective.

    A rank whose optimizer has no state yet gets the root's. As after Horovod's, which makes a state by a step, its
    parameters then have gradients of zeros where they had none. `model` is accepted and ignored.
    """
    if not optimizer.state:
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
    state = broadcast_object(optimizer.state_dict(), root_rank, "optimizer_state")
    optimizer.load_state_dict(
        state
    )  # the root loads it too, because loading changes some dtypes, which must be the same on all ranks
