"""Inception-v3 (Szegedy et al., "Rethinking the Inception Architecture", table 1), without the auxiliary classifier."""

from __future__ import annotations

from torch import nn

from .parts import Beside, convolution, scores


def inception_v3(classes: int = 1000) -> nn.Module:
    """Float32 [n, 3, h, w], at least 75×75 and meant for 299×299, to one score per class; 23.8 million weights."""
    return nn.Sequential(
        *(convolution(3, 32, 3, 2), convolution(32, 32, 3), convolution(32, 64, 3, 1, 1), nn.MaxPool2d(3, 2)),
        *(convolution(64, 80, 1), convolution(80, 192, 3), nn.MaxPool2d(3, 2)),
        *(_figure_5(192, 32), _figure_5(256, 64), _figure_5(288, 64)),
        _smaller(288),
        *(_figure_6(128), _figure_6(160), _figure_6(160), _figure_6(192)),
        _smallest(768),
        *(_figure_7(1280), _figure_7(2048)),
        *scores(2048, classes, 0.5),
    )


def _pooled(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), convolution(inputs, outputs, 1))


def _figure_5(inputs: int, pooled: int) -> nn.Module:
    """The paper's figure 5, whose first 5×5 is one convolution."""
    return Beside(
        [
            convolution(inputs, 64, 1),
            nn.Sequential(convolution(inputs, 48, 1), convolution(48, 64, 5, 1, 2)),
            nn.Sequential(convolution(inputs, 64, 1), convolution(64, 96, 3, 1, 1), convolution(96, 96, 3, 1, 1)),
            _pooled(inputs, pooled),
        ]
    )


def _smaller(inputs: int) -> nn.Module:
    return Beside(
        [
            convolution(inputs, 384, 3, 2),
            nn.Sequential(convolution(inputs, 64, 1), convolution(64, 96, 3, 1, 1), convolution(96, 96, 3, 2)),
            nn.MaxPool2d(3, 2),
        ]
    )


def _figure_6(width: int) -> nn.Module:
    """7×7 as 1×7 and 7×1."""
    return Beside(
        [
            convolution(768, 192, 1),
            nn.Sequential(convolution(768, width, 1), _flat(width, width), _tall(width, 192)),
            nn.Sequential(
                convolution(768, width, 1),
                *(_tall(width, width), _flat(width, width)),
                *(_tall(width, width), _flat(width, 192)),
            ),
            _pooled(768, 192),
        ]
    )


def _smallest(inputs: int) -> nn.Module:
    return Beside(
        [
            nn.Sequential(convolution(inputs, 192, 1), convolution(192, 320, 3, 2)),
            nn.Sequential(convolution(inputs, 192, 1), _flat(192, 192), _tall(192, 192), convolution(192, 192, 3, 2)),
            nn.MaxPool2d(3, 2),
        ]
    )


def _figure_7(inputs: int) -> nn.Module:
    """3×3 as 1×3 beside 3×1."""
    return Beside(
        [
            convolution(inputs, 320, 1),
            nn.Sequential(convolution(inputs, 384, 1), _crossed()),
            nn.Sequential(convolution(inputs, 448, 1), convolution(448, 384, 3, 1, 1), _crossed()),
            _pooled(inputs, 192),
        ]
    )


def _crossed() -> nn.Module:
    return Beside([convolution(384, 384, (1, 3), 1, (0, 1)), convolution(384, 384, (3, 1), 1, (1, 0))])


def _flat(inputs: int, outputs: int) -> nn.Module:
    return convolution(inputs, outputs, (1, 7), 1, (0, 3))


def _tall(inputs: int, outputs: int) -> nn.Module:
    return convolution(inputs, outputs, (7, 1), 1, (3, 0))
