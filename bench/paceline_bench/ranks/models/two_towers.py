"""A model with two inputs and two outputs: an image and words, which class they have and what is said of each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .parts import convolution


class TwoTowers(nn.Module):
    """Float32 [n, 3, h, w] and int64 [n, tokens] to float32 [n, classes] and [n, words]: scores of both.

    The words' tower comes after the images', so that words wait for it and cross every cut in it. h, w: multiples of 4.
    """

    def __init__(self, classes: int = 10, words: int = 256, width: int = 32, depth: int = 6) -> None:
        super().__init__()
        self.images = nn.Sequential(
            convolution(3, width, 3, 2, 1),
            *(convolution(width, width, 3, 1, 1) for _ in range(depth)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.words = nn.Embedding(words, width)
        self.read = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.classes = nn.Linear(2 * width, classes)
        self.said = nn.Linear(2 * width, words)

    def forward(self, images: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return both scores."""
        seen = self.images(images)
        both = torch.cat([seen, self.read(self.words(words)).mean(1)], 1)
        return self.classes(both), self.said(both)
