"""The loss that a closure of an optimizer's step returns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paceline.horovod import ops
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.torch.allreduce import allreduce


def combined_loss(loss: Any, op: int, process_set: ProcessSet) -> Any:
    """Return the ranks' sum of a loss whose gradients are summed by `op`, else their average. Collective.

    An optimizer that decides by losses, such as L-BFGS with a line search, then does so alike on all ranks. What is no
    number, nor a tensor of one, is returned as it is.
    """
    if not isinstance(loss, Tensor | float) or (isinstance(loss, Tensor) and loss.numel() != 1):
        return loss
    own = loss.detach() if isinstance(loss, Tensor) else torch.tensor(loss, dtype=torch.float64)
    reduction = ops.Sum if op == ops.Sum else ops.Average
    total = allreduce(own, name="optimizer.loss", op=reduction, process_set=process_set)
    return total if isinstance(loss, Tensor) else total.item()
