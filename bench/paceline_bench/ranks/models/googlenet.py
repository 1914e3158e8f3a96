"""GoogLeNet (Szegedy et al., "Going Deeper with Convolutions", table 1), without the auxiliary classifiers.

As in torchvision, with batch normalisation, and 3×3 where the paper has 5×5.
"""

from __future__ import annotations

from torch import nn

from .parts import Beside, convolution, scores

_BLOCKS = (
    (192, 64, 96, 128, 16, 32, 32),
    (256, 128, 128, 192, 32, 96, 64),
    3,
    (480, 192, 96, 208, 16, 48, 64),
    (512, 160, 112, 224, 24, 64, 64),
    (512, 128, 128, 256, 24, 64, 64),
    (512, 112, 144, 288, 32, 64, 64),
    (528, 256, 160, 320, 32, 128, 128),
    2,
    (832, 256, 160, 320, 32, 128, 128),
    (832, 384, 192, 384, 48, 128, 128),
)
"""Per block: input channels; outputs of 1×1; of the reduction before 3×3, of 3×3; of the reduction before "5×5", of
"5×5"; of the projection after the pool. A single number is the kernel size of a pool with stride 2.
"""


def googlenet(classes: int = 1000) -> nn.Module:
    """Float32 [n, 3, h, w] to one score per class; 6.6 million weights for 1000."""
    return nn.Sequential(
        *(convolution(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(convolution(64, 64, 1), convolution(64, 192, 3, 1, 1), nn.MaxPool2d(3, 2, ceil_mode=True)),
        *(nn.MaxPool2d(one, 2, ceil_mode=True) if isinstance(one, int) else _block(*one) for one in _BLOCKS),
        *scores(1024, classes, 0.2),
    )


def _block(inputs: int, one: int, before_three: int, three: int, before_five: int, five: int, pooled: int) -> nn.Module:
    return Beside(
        [
            convolution(inputs, one, 1),
            nn.Sequential(convolution(inputs, before_three, 1), convolution(before_three, three, 3, 1, 1)),
            nn.Sequential(convolution(inputs, before_five, 1), convolution(before_five, five, 3, 1, 1)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), convolution(inputs, pooled, 1)),
        ]
    )
