"""Layers that several networks share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

Pair = int | tuple[int, int]


def normalised(inputs: int, outputs: int, kernel: Pair, stride: int = 1, padding: Pair = 0) -> nn.Module:
    """Return a convolution without bias, followed by batch normalisation."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False), nn.BatchNorm2d(outputs))


def convolution(inputs: int, outputs: int, kernel: Pair, stride: int = 1, padding: Pair = 0) -> nn.Module:
    """Return a convolution without bias, followed by batch normalisation and ReLU."""
    return nn.Sequential(normalised(inputs, outputs, kernel, stride, padding), nn.ReLU())


class Beside(nn.Module):
    """Branches over the same images, whose channels are concatenated."""

    def __init__(self, branches: Sequence[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, images: Tensor) -> Tensor:
        """Float32 [n, inputs, h, w] to [n, all branches' outputs, h', w']."""
        return torch.cat([branch(images) for branch in self.branches], 1)


def scores(inputs: int, classes: int, drop: float = 0.0) -> list[nn.Module]:
    """Return the last layers of a network: the mean over each image, dropout, and one score per class."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(drop), nn.Linear(inputs, classes)]
