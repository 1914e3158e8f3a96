"""Small models of the kinds that `hybrid` cuts, each with an example batch and its targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SAMPLES = 17  # which 4 microbatches divide into 5, 4, 4 and 4


class Block(nn.Module):
    """A residual block of ResNet-20 and its deeper relatives for CIFAR."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm_after = nn.BatchNorm2d(width)
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.norm(self.first(x)))
        y = self.norm_after(self.second(y))
        y += x
        result: Tensor = self.activation(y)
        return result


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(*(Block(4) for _ in range(3)))
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.blocks(self.stem(x)).mean((2, 3)))
        return result


class UNet(nn.Module):
    """Skips from every level down to the same level up; sizes of tensors are used as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)])
        self.bottom = nn.Conv2d(6, 6, 3, padding=1)
        self.up = nn.ModuleList([nn.Conv2d(12, 4, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)])
        self.drop = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level in self.down:
            x = level(x).relu()
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.drop(self.bottom(x).relu())
        for level in self.up:
            skip = kept.pop()
            x = level(torch.cat([F.interpolate(x, size=(skip.size(2), skip.size(3))), skip], 1)).relu()
        return x


class Layer(nn.Module):
    """Attention and a feed-forward network. What it does depends on the sizes that it finds."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        if x.size(1) > 64:
            raise ValueError("too long")
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        result: Tensor = x + self.feed(self.norms[1](x))
        return result


class Embedding(nn.Module):
    """What it does depends on whether it is trained."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, width)
        self.position = nn.Parameter(torch.randn(1, 6, width) * 0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.dropout(self.tokens(tokens) + self.position[:, : tokens.size(1)], 0.1, self.training)


class Transformer(nn.Module):
    """The output layer's weights are the embedding's."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(8)
        self.layers = nn.ModuleList(Layer(8) for _ in range(6))
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        result: Tensor = self.head(x)
        return result


class TwoAndTwo(nn.Module):
    """Two inputs, of which one is used at the end only, a result in a dictionary, a mask, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(6))
        self.layers[2].requires_grad_(False)
        self.other = nn.Linear(3, 6)
        self.unused = nn.Linear(2, 2)
        self.register_buffer("scale", torch.full((6,), 0.5))

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        mask = x > 0
        for layer in self.layers:
            x = layer(x).tanh()
        x = torch.where(mask, x, -x) * self.scale
        return {"sum": x + self.other(y), "both": (x, x.size(0))}


def mean_square(output: dict[str, Any], target: tuple[Tensor, Tensor]) -> Tensor:
    both: Tensor = output["both"][0]
    return F.mse_loss(output["sum"], target[0]) + F.mse_loss(both, target[1])


def token_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def resnet() -> tuple[nn.Module, Any, Any, Callable[..., Tensor]]:
    return ResNet(), torch.randn(SAMPLES, 3, 6, 6), torch.arange(SAMPLES) % 5, F.cross_entropy


def unet() -> tuple[nn.Module, Any, Any, Callable[..., Tensor]]:
    return UNet(), torch.randn(SAMPLES, 2, 8, 8), torch.randn(SAMPLES, 2, 8, 8), F.mse_loss


def transformer() -> tuple[nn.Module, Any, Any, Callable[..., Tensor]]:
    tokens = torch.randint(11, (SAMPLES, 6))
    return Transformer(), tokens, tokens.roll(1, 1), token_loss


def two_and_two() -> tuple[nn.Module, Any, Any, Callable[..., Tensor]]:
    inputs = torch.randn(SAMPLES, 6), torch.randn(SAMPLES, 3)
    return TwoAndTwo(), inputs, (torch.randn(SAMPLES, 6), torch.randn(SAMPLES, 6)), mean_square


MODELS = {"resnet": resnet, "unet": unet, "transformer": transformer, "two_and_two": two_and_two}
