"""Networks for images of 32×32: residual ones of 100 and 1000 layers, and a U-Net."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d, relu

from .parts import convolution, normalised

_WIDTHS = (16, 32, 64)
_BOTTLENECKS_FROM = 164
_EXPANSION = 4


class Plain(nn.Module):
    """Two convolutions beside a shortcut: float32 [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(convolution(inputs, outputs, 3, stride, 1), normalised(outputs, outputs, 3, 1, 1))
        self.shortcut = nn.Identity() if inputs == outputs else normalised(inputs, outputs, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        """Map float images to float images of the shape above."""
        return relu(self.layers(images) + self.shortcut(images))


class Bottleneck(nn.Module):
    """Three convolutions, each after a normalisation, beside a shortcut; shapes as in `Plain`."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        width = outputs // _EXPANSION
        layers: list[nn.Module] = []
        for before, after, kernel, step in ((inputs, width, 1, stride), (width, width, 3, 1), (width, outputs, 1, 1)):
            layers += [nn.BatchNorm2d(before), nn.ReLU(inplace=True)]
            layers += [nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False)]
        self.layers = nn.Sequential(*layers)
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map float images to float images of the shape above."""
        added: Tensor = self.layers(images) + self.shortcut(images)
        return added


def deep_resnet(layers: int, classes: int = 10) -> nn.Module:
    """Float32 [n, 3, 32, 32] to one score per class.

    Up to 163 layers, 6 k + 2 of them, the blocks are those of He et al., "Deep Residual Learning for Image Recognition"
    (section 4.2; 110 layers have 1.7 million weights); beyond, with 9 k + 2 layers, those of He et al., "Identity
    Mappings in Deep Residual Networks" (1001 layers have 10.3 million).
    """
    bottleneck = layers >= _BOTTLENECKS_FROM
    blocks: list[nn.Module] = []
    inputs = _WIDTHS[0]
    for width in _WIDTHS:
        outputs = width * (_EXPANSION if bottleneck else 1)
        for number in range((layers - 2) // (9 if bottleneck else 6)):
            stride = 2 if number == 0 and width != _WIDTHS[0] else 1
            blocks.append((Bottleneck if bottleneck else Plain)(inputs, outputs, stride))
            inputs = outputs
    first = nn.Conv2d(3, _WIDTHS[0], 3, padding=1, bias=False) if bottleneck else convolution(3, _WIDTHS[0], 3, 1, 1)
    last = [nn.BatchNorm2d(inputs), nn.ReLU()] if bottleneck else []
    return nn.Sequential(first, *blocks, *last, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class UNet(nn.Module):
    """Ronneberger et al., "U-Net" (2015), with padding and normalisation: float32 [n, 3, h, w] to [n, classes, h, w].

    h, w: multiples of 8.
    """

    def __init__(self, classes: int = 10, width: int = 32) -> None:
        super().__init__()
        widths = [width << level for level in range(4)]
        self.down = nn.ModuleList(_double(before, after) for before, after in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList(
            _double(wide + narrow, narrow) for wide, narrow in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.scores = nn.Conv2d(width, classes, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Return one score for each class and pixel."""
        kept: list[Tensor] = []
        for level in self.down:
            images = level(max_pool2d(kept[-1], 2) if kept else images)
            kept.append(images)
        kept.pop()
        for level in self.up:
            images = level(torch.cat([interpolate(images, scale_factor=2.0), kept.pop()], 1))
        found: Tensor = self.scores(images)
        return found


def _double(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(convolution(inputs, outputs, 3, 1, 1), convolution(outputs, outputs, 3, 1, 1))
