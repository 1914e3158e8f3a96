"""Optimizers that torch does not have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.optim import Optimizer


class GlobalNorm(Optimizer):
    """Steps of one length, over all parameters together, as optimizers make that keep statistics over all of them."""

    def __init__(self, params: Iterable[Any], lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Make a step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            given = [one for one in group["params"] if one.grad is not None]
            norms = [one.grad.double().square().sum() for one in given]
            if norms:
                whole = torch.stack(norms).sum().sqrt() + 1e-8
                for one in given:
                    one -= (group["lr"] * one.grad.double() / whole).to(one.dtype)
        return loss


OWN = {"GlobalNorm": GlobalNorm}
