"""Sequential networks: AlexNet (Krizhevsky's "One weird trick", 2014) and VGG (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from torch import nn

_VGG = {16: ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 19: ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))}
"""Channels and number of convolutions of each block, by the number of layers."""


def alexnet(classes: int = 1000, narrower: int = 1) -> nn.Module:
    """Float32 [n, 3, h, w] to one score per class; 61.1 million weights for 1000.

    narrower: the divisor of all numbers of channels.
    """
    first, second, third, fourth, wide = (width // narrower for width in (64, 192, 384, 256, 4096))
    return nn.Sequential(
        *(nn.Conv2d(3, first, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(first, second, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(second, third, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(third, fourth, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(fourth, fourth, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.AdaptiveAvgPool2d(6), nn.Flatten()),
        *(nn.Dropout(), nn.Linear(fourth * 36, wide), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(wide, wide), nn.ReLU()),
        nn.Linear(wide, classes),
    )


def vgg(layers: int, classes: int = 1000, narrower: int = 1) -> nn.Module:
    """Float32 [n, 3, h, w] to one score per class; 16 layers have 138.4 million weights for 1000, 19 have 143.7.

    narrower: the divisor of all numbers of channels.
    """
    stages: list[nn.Module] = []
    inputs, wide = 3, 4096 // narrower
    for width, times in _VGG[layers]:
        for _ in range(times):
            stages += [nn.Conv2d(inputs, width // narrower, 3, padding=1), nn.ReLU()]
            inputs = width // narrower
        stages.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *stages,
        *(nn.AdaptiveAvgPool2d(7), nn.Flatten()),
        *(nn.Linear(inputs * 49, wide), nn.ReLU(), nn.Dropout()),
        *(nn.Linear(wide, wide), nn.ReLU(), nn.Dropout()),
        nn.Linear(wide, classes),
    )
