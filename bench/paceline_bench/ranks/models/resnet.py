"""Residual networks for ImageNet (He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", table 1).

The stride of a bottleneck is in its 3×3 convolution, as in torchvision and most other implementations.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import relu

from .parts import convolution, normalised, scores

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""The number of residual blocks of each width, by the number of layers."""
_WIDTHS = (64, 128, 256, 512)
_BOTTLENECKS_FROM = 50
_EXPANSION = 4


class Residual(nn.Module):
    """Layers beside a shortcut: float32 [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = width * (_EXPANSION if bottleneck else 1)
        if bottleneck:
            self.layers = nn.Sequential(
                convolution(inputs, width, 1),
                convolution(width, width, 3, stride, 1),
                normalised(width, outputs, 1),
            )
        else:
            self.layers = nn.Sequential(convolution(inputs, width, 3, stride, 1), normalised(width, outputs, 3, 1, 1))
        same_shape = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same_shape else normalised(inputs, outputs, 1, stride)

    def forward(self, images: Tensor) -> Tensor:
        """Map float images to float images of the shape above."""
        added: Tensor = self.layers(images) + self.shortcut(images)
        return relu(added)


def resnet(layers: int, classes: int = 1000, narrower: int = 1) -> nn.Module:
    """Return a network of `layers` layers, a key of BLOCKS: float32 [n, 3, h, w] to one score per class.

    narrower: the divisor of all numbers of channels.
    """
    bottleneck = layers >= _BOTTLENECKS_FROM
    widths = [width // narrower for width in _WIDTHS]
    inputs = widths[0]
    blocks: list[nn.Module] = []
    for width, times in zip(widths, BLOCKS[layers], strict=True):
        for number in range(times):
            blocks.append(Residual(inputs, width, 2 if number == 0 and width != widths[0] else 1, bottleneck))
            inputs = width * (_EXPANSION if bottleneck else 1)
    return nn.Sequential(
        convolution(3, widths[0], 7, 2, 3), nn.MaxPool2d(3, 2, padding=1), *blocks, *scores(inputs, classes)
    )
