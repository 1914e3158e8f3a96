"""ResNet-18 (He et al., Deep Residual Learning for Image Recognition, table 1) as ImageNet's models have it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

_SEED = 1
_WIDTHS = (64, 128, 256, 512)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut: float32 [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.second = _convolution(outputs, outputs, 3, 1)
        same_shape = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same_shape else _convolution(inputs, outputs, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        """Float images to float images of the shape above."""
        added: Tensor = self.shortcut(images) + self.second(relu(self.first(images)))
        return relu(added)


def resnet18(classes: int = 1000) -> nn.Module:
    """A new network, the same each time: float32 [n, 3, h, w] to one score per class; 11.7 million weights for 1000."""
    torch.manual_seed(_SEED)
    blocks: list[nn.Module] = []
    inputs = _WIDTHS[0]
    for outputs in _WIDTHS:
        blocks += [BasicBlock(inputs, outputs, 1 if outputs == inputs else 2), BasicBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(
        _convolution(3, _WIDTHS[0], 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(inputs, classes),
    )


def _convolution(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs)
    )
