"""Networks of inverted residuals: MobileNet v2 (Sandler et al., 2018, table 2) and MNASNet-B1 (Tan et al., 2019)."""

from __future__ import annotations

from torch import Tensor, nn

from .parts import scores

_MOBILENET = (
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3)),
    *((6, 96, 3, 1, 3), (6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
)
_MNASNET = (
    *((3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5)),
    *((6, 96, 2, 1, 3), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
)
"""Per stage: expansion, channels, blocks, stride of the first, size of the kernel."""
_LAST = 1280


class Inverted(nn.Module):
    """A wide depthwise convolution between two narrow ones, beside a shortcut where the shape allows."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.layers = nn.Sequential(
            *(_convolution(inputs, wide, 1) if expansion > 1 else ()),
            *_convolution(wide, wide, kernel, stride, wide),
            *(nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.same_shape = inputs == outputs and stride == 1

    def forward(self, images: Tensor) -> Tensor:
        """Map float images [n, inputs, h, w] to [n, outputs, h / stride, w / stride]."""
        found: Tensor = self.layers(images)
        return images + found if self.same_shape else found


def mobilenet_v2(classes: int = 1000, narrower: int = 1) -> nn.Module:
    """Float32 [n, 3, h, w] to one score per class; 3.5 million weights for 1000.

    narrower: the divisor of all numbers of channels.
    """
    first = 32 // narrower
    stages, inputs = _stages(first, _MOBILENET, 1 / narrower)
    last = _LAST // narrower
    return nn.Sequential(
        *_convolution(3, first, 3, 2), *stages, *_convolution(inputs, last, 1), *scores(last, classes, 0.2)
    )


def mnasnet(classes: int = 1000, depth: float = 1.3) -> nn.Module:
    """Float32 [n, 3, h, w] to one score per class; 6.3 million weights for 1000 and depth 1.3.

    depth: the factor of all numbers of channels but the last, rounded to multiples of 8.
    """
    first, second = _rounded(32 * depth), _rounded(16 * depth)
    stages, inputs = _stages(second, _MNASNET, depth)
    last = _LAST if depth >= 1 else int(_LAST * depth)
    return nn.Sequential(
        *_convolution(3, first, 3, 2),
        *_convolution(first, first, 3, 1, first),
        *(nn.Conv2d(first, second, 1, bias=False), nn.BatchNorm2d(second)),
        *stages,
        *_convolution(inputs, last, 1),
        *scores(last, classes, 0.2),
    )


def _stages(
    inputs: int, rows: tuple[tuple[int, int, int, int, int], ...], factor: float
) -> tuple[list[nn.Module], int]:
    blocks: list[nn.Module] = []
    for expansion, channels, times, stride, kernel in rows:
        outputs = channels if factor == 1 else _rounded(channels * factor)
        for number in range(times):
            blocks.append(Inverted(inputs, outputs, expansion, stride if number == 0 else 1, kernel))
            inputs = outputs
    return blocks, inputs


def _rounded(channels: float) -> int:
    """The nearest multiple of 8, but not below 90 % of the number."""
    whole = max(8, int(channels + 4) // 8 * 8)
    return whole if whole >= 0.9 * channels else whole + 8


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> tuple[nn.Module, ...]:
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return layer, nn.BatchNorm2d(outputs), nn.ReLU6()
