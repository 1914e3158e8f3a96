"""Models of whose forward symbolic tracing does not see everything, or whose values share memory."""

from __future__ import annotations

import random
from collections import namedtuple
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH = 4


def layer() -> nn.Linear:
    return nn.Linear(WIDTH, WIDTH)


class Between(nn.Module):
    """A module between two layers."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.first, self.inner, self.last = layer(), inner, layer()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.inner(self.first(x)))
        return result


class Teacher(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.teacher, self.layer = layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            aim = self.teacher(x)
        result: Tensor = self.layer(x) + aim
        return result


class Decorated(nn.Module):
    """No gradients flow to what comes before, whose parameters have none."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(x)
        return result


class InAutocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y: Tensor = self.layer(x)
        return y.to(x.dtype)


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    def forward(self, x: Any) -> Any:
        if isinstance(x, Tensor):
            return self.layer(x)
        return x


class PythonsDice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x if random.random() < 0.5 else self.layer(x)
        return result


class NumpysDice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * float(np.random.rand())


class TorchsDice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x if torch.rand(()).item() < 0.5 else self.layer(x)
        return result


class Noise(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn(WIDTH)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 0.5
        self.options = {"shift": 1.0}

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.options["shift"]


class Moving(nn.Module):
    """A chain of changes in place of a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        self.mean.mul_(0.9).add_(x.detach().mean(0))
        return x - self.mean


class Rebinding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = self.mean * 0.9 + x.detach().mean(0)
        return x - self.mean


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        return F.dropout(x * self.calls * len(self.seen), 0.3, self.training)


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[:, 0] = 0
        y[:, 1] += 1
        y -= x.mean()
        return y


class Accumulating(nn.Module):
    """A tensor that the code makes and changes in place."""

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(WIDTH)
        total += x.mean(0)
        return x + total


class ListedWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()
        self.weights = [self.layer.weight]

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weights[0] * 2)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(layer(), layer())
        self.layers.register_forward_hook(lambda module, given, result: result * 2)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Penalized(nn.Module):
    """A forward that does a backward."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            y = self.layer(x).tanh()
            (gradient,) = torch.autograd.grad(y.sum(), self.layer.weight, create_graph=True)
        result: Tensor = y * gradient.sum()
        return result


class Borrowing(nn.Module):
    """Uses a module that is none of its own."""

    def __init__(self, others: list[nn.Linear]) -> None:
        super().__init__()
        self.others = others

    def forward(self, x: Tensor) -> Tensor:
        if x.detach().isnan().any():
            raise ValueError("NaN")
        result: Tensor = x @ self.others[0].weight
        return result


class Borrowed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layer(), layer()
        self.last = Borrowing([self.first])

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.second(self.first(x)))
        return result


class Positions(nn.Module):
    """Buffers that are in no state dict, one of them expanded, in a module that stays whole."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, WIDTH)
        self.register_buffer("ids", torch.arange(8).expand((1, -1)), persistent=False)
        self.register_buffer("ones", torch.ones(1).expand(6), persistent=False)
        self.register_buffer("cosines", torch.rand(WIDTH), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.detach().isnan().any():
            raise ValueError("NaN")
        result: Tensor = x * self.cosines + self.embedding(self.ids[:, :WIDTH])[0].sum(0)
        return result


class RootPositions(nn.Module):
    """The same in the model's own forward, which uses a buffer on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.first, self.last = nn.Embedding(8, WIDTH), layer(), layer()
        self.register_buffer("ids", torch.arange(8), persistent=False)
        self.register_buffer("table", torch.rand(WIDTH), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x) * self.table + self.embedding(self.ids[:WIDTH]).sum(0)
        result: Tensor = self.last(x) * self.table
        return result


class BaseAndView(nn.Module):
    """Both cross a cut, and behind it the view is changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layer(), layer()
        self.frozen = nn.Sequential(layer(), layer(), layer()).requires_grad_(False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        base = self.first(x).view(-1, 2, 2)
        view = base.flatten(1)
        y = self.frozen(view)
        view = self.relu(view)
        return self.last(y).tanh() + view, base.flatten(1) * 3


class SharedNorm(nn.Module):
    """Statistics that two calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(3))
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers[2](self.norm(self.layers[1](self.norm(self.layers[0](x)))))
        return result


class ReadLater(nn.Module):
    """A buffer that is changed by one call and read by a later one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.moving = nn.ModuleList(layer() for _ in range(3)), Moving()

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[1](self.moving(self.layers[0](x)))
        result: Tensor = self.layers[2](x) + self.moving.mean.clone()
        return result


class FilledLater(nn.Module):
    """A value through which no gradients flow until a part of another one is written into it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        y = self.layers[1](self.layers[0](x))
        out[:, 0] = y[:, 0]
        result: Tensor = self.layers[2](out) + out
        return result


class Numbers(nn.Module):
    """A shape, a float and a truth value cross cuts."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        shape, scale, large = x.shape[-2:], x.size(-1) ** -0.5, x.size(0) > 1000
        for each in self.layers:
            x = each(x)
        return (x * scale + large).view(shape)


class Largest(nn.Module):
    """Fields of a result of torch's own kind of named tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.first(x) * self.first(x).max(1, keepdim=True).values)
        return result


class ViewChanged(nn.Module):
    """A base crosses a cut, behind which a view of it is made and changed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        view = self.first(x).unsqueeze(1).squeeze(1)
        view += 1
        result: Tensor = self.last(view)
        return result


class Turned(nn.Module):
    """Which elements are dropped depends on how they lie in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = layer(), nn.Dropout(0.5), layer()

    def forward(self, x: Tensor) -> Tensor:
        turned = self.first(x).t()
        result: Tensor = self.last(self.drop(turned).t())
        return result


class Leaky(nn.Sequential):
    """Ends with a call that saves its random numbers for the backward before it draws them."""

    def __init__(self) -> None:
        super().__init__(layer(), layer(), nn.RReLU())


class TypeRead(nn.Module):
    """Of a value only its type is needed later, so that no gradient of it comes from there."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = layer(), layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        result: Tensor = self.last(self.second(y)).to(y.dtype)
        return result


class Conjugates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layer(), layer()

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        z = torch.complex(y, 2 * y).conj()
        negative = z.imag
        result: Tensor = self.last(negative) + z.real + z.imag
        return result


Pair = namedtuple("Pair", "left right")


@dataclass
class Output:
    logits: Tensor
    size: int


class Structured(nn.Module):
    """A named tuple with a dictionary and a data class in it, and a parameter itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layer(), layer()

    def forward(self, x: Tensor) -> Pair:
        y = self.first(x)
        return Pair(self.last(y), {"output": Output(y, y.size(0)), "weight": self.last.weight})


class Whole(nn.Module):
    """Several kinds of state, with dropout in front of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = layer(), layer()
        self.counting, self.rebinding, self.drop = Counting(), Rebinding(), nn.Dropout(0.4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.rebinding(self.second(self.drop(self.counting(self.first(x)))))
        return result


def described(forward: Any) -> Any:
    """A decorator as libraries use it, behind which the names of arguments are those of the wrapper."""

    @wraps(forward)
    def called(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return forward(self, *args, **kwargs)

    return called


class Described(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = layer(), layer()

    @described
    def forward(self, x: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
        if mask is not None or options:
            raise ValueError("there is neither")
        result: Tensor = self.last(self.first(x))
        return result


class Twice(nn.Module):
    """Uses what it is given twice in training."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = layer()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        return y + x if self.training else y


class TwiceAtFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.twice, self.last = Twice(), layer()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.twice(x))
        return result


INSIDE = (
    Teacher,
    Decorated,
    InAutocast,
    Branching,
    TorchsDice,
    Noise,
    Scaled,
    Moving,
    Rebinding,
    Counting,
    InPlace,
    Accumulating,
    ListedWeights,
    Hooked,
    Penalized,
    Positions,
)
"""What is served between two layers."""

MODELS = (
    RootPositions,
    BaseAndView,
    SharedNorm,
    ReadLater,
    FilledLater,
    Numbers,
    Largest,
    Conjugates,
    Structured,
    Whole,
    Described,
    TwiceAtFirst,
)
"""What is served as a model."""
