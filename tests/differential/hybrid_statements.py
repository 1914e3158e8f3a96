"""What the statements of a drawn forward do: each makes a value, or several, of two earlier ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hybrid_programs import WIDTH
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Does = Callable[[Any, Any, Any, int], Any]
"""The module whose forward it is, two values, and a number, by which it chooses a part or a way to do it."""

STATEMENTS: dict[str, Does] = {
    "call": lambda own, x, y, part: own.called(part, x),
    "add": lambda own, x, y, part: x + y,
    "subtract": lambda own, x, y, part: x - 0.5 * y,
    "multiply": lambda own, x, y, part: torch.tanh(x) * y,
    "scale": lambda own, x, y, part: x * own.scale,
    "clone": lambda own, x, y, part: x.clone(),
    "detach": lambda own, x, y, part: x.detach(),
    "zeros": lambda own, x, y, part: torch.zeros_like(x),
    "weight": lambda own, x, y, part: F.linear(x, own.own.weight),
    "shift": lambda own, x, y, part: x + own.shift - own.steady,
    "shape": lambda own, x, y, part: x.reshape(y.shape) * y.size(-1) ** -0.5,
    "largest": lambda own, x, y, part: x.max(1, keepdim=True).values * torch.tanh(y),
    "masked": lambda own, x, y, part: x.masked_fill(y > 0, 0.0),
    "centered": lambda own, x, y, part: x - y.mean(0),
    "transposed": lambda own, x, y, part: (x.t() * 2).t(),
    "expanded": lambda own, x, y, part: x[:, :1].expand(-1, WIDTH),
    "in bfloat16": lambda own, x, y, part: x.bfloat16().to(x.dtype),
    "embedded": lambda own, x, y, part: own.table(x.argmax(1)),
    "dropped": lambda own, x, y, part: F.dropout(x, 0.3),
    "noise": lambda own, x, y, part: x + 0.1 * torch.randn_like(x),
    "mean read": lambda own, x, y, part: x - own.mean,
    "mode": lambda own, x, y, part: x if own.training else x * 2,
    "number of a value": lambda own, x, y, part: x * x.detach().abs().mean().item(),
    "random numbers": lambda own, x, y, part: x + torch.randn(WIDTH, dtype=own.scale.dtype),
    "random branch": lambda own, x, y, part: x if torch.rand(()).item() < 0.5 else -x,
    "listed weight": lambda own, x, y, part: x @ (own.listed[0] * 2),
    "own function": lambda own, x, y, part: _Tripled.apply(x),
    "another's weight": lambda own, x, y, part: F.linear(x, own.others[0].weight) if own.others else x,
    "dice of Python": lambda own, x, y, part: x * random.random(),
    "dice of NumPy": lambda own, x, y, part: x * float(np.random.rand()),
}


def _statement(does: Does) -> Does:
    STATEMENTS[does.__name__.strip("_").replace("_", " ")] = does
    return does


class _Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value * 3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


@_statement
def _halves_swapped(own: Any, x: Any, y: Any, part: int) -> Any:
    halves = x.chunk(2, 1)
    return torch.cat([halves[1], halves[0]], 1)


def _fresh(x: Any, part: int) -> Any:
    """Of two values to change in place one is a copy."""
    return x.clone() if part % 2 else x


@_statement
def _conjugate(own: Any, x: Any, y: Any, part: int) -> Any:
    both = torch.complex(x, y).conj()
    return both.real + both.imag


@_statement
def _add_in_place(own: Any, x: Any, y: Any, part: int) -> Any:
    x = _fresh(x, part)
    x += y
    return x


@_statement
def _halve_in_place(own: Any, x: Any, y: Any, part: int) -> Any:
    return _fresh(x, part).mul_(0.5)


@_statement
def _column_set(own: Any, x: Any, y: Any, part: int) -> Any:
    x = _fresh(x, part)
    x[:, 0] = y[:, 1]
    return x


@_statement
def _alias(own: Any, x: Any, y: Any, part: int) -> Any:
    ways: list[Callable[[Any], Any]] = [
        lambda x: x.flatten(1),
        lambda x: x[:],
        lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: x.t().t(),
        lambda x: x.reshape(-1, 2, 2).flatten(1),
    ]
    return ways[part](x)


@_statement
def _moving_mean(own: Any, x: Any, y: Any, part: int) -> Any:
    own.mean.mul_(0.9).add_(x.detach().mean(0))
    return x - own.mean


@_statement
def _counted_samples(own: Any, x: Any, y: Any, part: int) -> Any:
    own.seen += 1
    return x


@_statement
def _rebound_buffer(own: Any, x: Any, y: Any, part: int) -> Any:
    own.mean = own.mean * 0.9 + x.detach().mean(0)
    return x - own.mean


@_statement
def _call_without_gradients(own: Any, x: Any, y: Any, part: int) -> Any:
    with torch.no_grad():
        return own.called(part, x)


@_statement
def _call_in_autocast(own: Any, x: Any, y: Any, part: int) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return [one.to(x.dtype) for one in own.called(part, x)]


@_statement
def _call_with_checkpoint(own: Any, x: Any, y: Any, part: int) -> Any:
    return list(checkpoint(lambda value: tuple(own.called(part, value)), x, use_reentrant=False))


@_statement
def _branch(own: Any, x: Any, y: Any, part: int) -> Any:
    return x * 2 if x.detach().abs().sum() > 1 else -x


@_statement
def _counted_calls(own: Any, x: Any, y: Any, part: int) -> Any:
    own.calls += 1
    return x / own.calls


@_statement
def _listed_calls(own: Any, x: Any, y: Any, part: int) -> Any:
    own.history.append(len(own.history))
    return x / own.history[-1]


@_statement
def _backward(own: Any, x: Any, y: Any, part: int) -> Any:
    with torch.enable_grad():
        z = own.own(x).tanh()
        (gradient,) = torch.autograd.grad(z.sum(), own.own.weight, create_graph=True)
    return z * gradient.sum()


@_statement
def _hooked_value(own: Any, x: Any, y: Any, part: int) -> Any:
    z = x * 1.5
    if z.requires_grad:
        z.register_hook(lambda gradient: gradient * 2)
    return z
