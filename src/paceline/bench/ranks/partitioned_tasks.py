"""What `paceline bench hybrid` trains: a model, a batch and its loss, with random data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .models.decoder import Decoder
from .models.plain import vgg
from .models.small_images import UNet, deep_resnet

_CLASSES = 10
_PIXELS = 32
_WORDS, _TOKENS = 4096, 64
_SEED = 1

Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Task:
    """A training. model: makes it, with its weights drawn at random. data: inputs and targets of so many samples."""

    model: Callable[[], nn.Module]
    data: Callable[[int], Data]
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy

    def new(self) -> nn.Module:
        """The model, the same each time."""
        torch.manual_seed(_SEED)
        return self.model()


def _images(samples: int) -> Data:
    return torch.randn(samples, 3, _PIXELS, _PIXELS), torch.randint(_CLASSES, (samples,))


def _segments(samples: int) -> Data:
    return torch.randn(samples, 3, _PIXELS, _PIXELS), torch.randint(_CLASSES, (samples, _PIXELS, _PIXELS))


def _text(samples: int) -> Data:
    tokens = torch.randint(_WORDS, (samples, _TOKENS))
    return tokens, tokens.roll(-1, 1)


def _next_words(scores: Tensor, words: Tensor) -> Tensor:
    return cross_entropy(scores.flatten(0, 1), words.flatten())


TASKS = {
    "ResNet-110": Task(lambda: deep_resnet(110), _images),
    "ResNet-1001": Task(lambda: deep_resnet(1001), _images),
    "VGG16": Task(lambda: vgg(16, _CLASSES, narrower=4), _images),
    "transformer": Task(lambda: Decoder(tokens=_TOKENS, words=_WORDS), _text, _next_words),
    "U-Net": Task(UNet, _segments),
}
"""By name. VGG16 has a quarter of its channels, and 8.4 million weights, most of them in one layer. The transformer's
output layer has its embedding's weights.
"""
