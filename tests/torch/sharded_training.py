"""The model that tests of ShardedOptimizer train, and the optimizers that it is given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

CLASSES: dict[str, tuple[type[Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.01}),
    "momentum": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "fused": (torch.optim.AdamW, {"lr": 0.01, "fused": True}),
    "foreach": (torch.optim.AdamW, {"lr": 0.01, "foreach": True}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9, "centered": True}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.01}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
    "rprop": (torch.optim.Rprop, {}),
    "asgd": (torch.optim.ASGD, {}),
}


class Net(nn.Module):
    """Three dtypes, a parameter without dimensions, one in another memory order, one used twice, one frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(36, 36) for _ in range(4))
        self.convolution = nn.Conv2d(1, 4, 4, stride=2).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.scale = nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
        self.shift = nn.Parameter(torch.full((100,), 0.25, dtype=torch.bfloat16))
        self.frozen = nn.Parameter(torch.ones(16), requires_grad=False)

    def forward(self, x: Tensor, without: int | None = None) -> Tensor:
        for index, layer in enumerate(self.layers):
            x = x if index == without else layer(x).tanh()
        images = self.convolution(self.layers[0](x).reshape(-1, 1, 6, 6)).flatten(1)
        result: Tensor = images * self.scale.to(x.dtype) * self.frozen + self.shift[:16].to(x.dtype)
        return result


def model(seed: int = 0) -> Net:
    torch.manual_seed(seed)
    return Net()


def groups(net: nn.Module) -> list[dict[str, Any]]:
    """Matrices and the rest, as weight decay divides them."""
    flat = [parameter for parameter in net.parameters() if parameter.dim() < 2]
    return [{"params": [p for p in net.parameters() if p.dim() >= 2], "weight_decay": 0.2}, {"params": flat}]


def batch(step: int, rank: int) -> Tensor:
    return torch.randn(5, 36, generator=torch.Generator().manual_seed(1000 * step + rank))


def loss_of(net: Net, step: int, rank: int, without: int | None = None) -> Tensor:
    result: Tensor = net(batch(step, rank).to(net.frozen.dtype), without).square().mean()
    return result


def backward(net: Net, step: int, rank: int, without: int | None = None) -> None:
    loss_of(net, step, rank, without).backward()
