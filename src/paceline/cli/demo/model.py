"""The network that the demo trains.

It has GroupNorm and not BatchNorm, whose statistics span images: with GroupNorm four ranks with 16 images each compute
what one process computes with 64. It has SiLU and not ReLU, because SiLU is smooth: at ReLU's corner the last bit of a
sum decides which side an activation is on, and float32 runs that add in different orders drift apart (by 1e-2 after the
demo's training, compared with 1e-6 here).
"""

import torch
from torch import Tensor, nn

GROUPS = 8
SEED = 1


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut: [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, stride)
        self.second = _convolution(outputs, outputs)
        same_shape = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same_shape else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Map float images to float images of the shape above."""
        added: Tensor = self.shortcut(images) + self.second(self.first(images))
        return added


def residual_network() -> nn.Module:
    """Return a new network, the same each time: float32 [n, 1, 8, 8] to one score per digit, [n, 10].

    It has 303 thousand weights.
    """
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        ResidualBlock(16, 16, stride=1),
        ResidualBlock(16, 32, stride=2),
        ResidualBlock(32, 160, stride=2),
        nn.GroupNorm(GROUPS, 160),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(160, 10),
    )


def _convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
    return nn.Sequential(nn.GroupNorm(GROUPS, inputs), nn.SiLU(), convolution)
