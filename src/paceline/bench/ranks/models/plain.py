"""Sequential networks: AlexNet (Krizhevsky's "One weird trick", 2014) and VGG16 (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from torch import nn

_VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions of each block."""


def alexnet(classes: int = 1000) -> nn.Module:
    """Float32 [n, 3, h, w] to one score per class; 61.1 million weights for 1000."""
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.AdaptiveAvgPool2d(6), nn.Flatten()),
        *(nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU()),
        nn.Linear(4096, classes),
    )


def vgg16(classes: int = 1000) -> nn.Module:
    """Float32 [n, 3, h, w] to one score per class; 138.4 million weights for 1000."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, times in _VGG16:
        for _ in range(times):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers,
        *(nn.AdaptiveAvgPool2d(7), nn.Flatten()),
        *(nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout()),
        *(nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout()),
        nn.Linear(4096, classes),
    )
