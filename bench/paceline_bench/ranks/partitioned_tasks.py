"""The tasks that `paceline bench hybrid` trains: a model, a batch and its loss, with random data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .models.decoder import Decoder
from .models.plain import vgg
from .models.small_images import UNet, deep_resnet
from .models.two_towers import TwoTowers

_CLASSES = 10
_PIXELS = 32
_WORDS, _TOKENS = 4096, 64
_SAID = 256
_SEED = 1

Tensors = Tensor | tuple[Tensor, ...]
"""One input or target of a model, or several."""
Data = tuple[Tensors, Tensors]


@dataclass(frozen=True)
class Task:
    """A training. model: makes it, with its weights drawn at random. data: inputs and targets of so many samples."""

    model: Callable[[], nn.Module]
    data: Callable[[int], Data]
    loss: Callable[[Any, Any], Tensor] = cross_entropy

    def new(self) -> nn.Module:
        """The model, the same each time."""
        torch.manual_seed(_SEED)
        return self.model()

    def loss_of(self, model: nn.Module, inputs: Tensors, targets: Tensors) -> Tensor:
        """The loss of the model's output for these inputs."""
        return self.loss(model(*inputs) if isinstance(inputs, tuple) else model(inputs), targets)


def split(tensors: Tensors, parts: int) -> list[Any]:
    """Split a batch into so many parts, of which the first have a sample more where they can't be equal."""
    if isinstance(tensors, Tensor):
        return list(tensors.tensor_split(parts))
    return list(zip(*(one.tensor_split(parts) for one in tensors), strict=True))


def samples(tensors: Tensors) -> int:
    """Return the size of a batch."""
    return len(tensors if isinstance(tensors, Tensor) else tensors[0])


def _images(samples: int) -> Data:
    return torch.randn(samples, 3, _PIXELS, _PIXELS), torch.randint(_CLASSES, (samples,))


def _segments(samples: int) -> Data:
    return torch.randn(samples, 3, _PIXELS, _PIXELS), torch.randint(_CLASSES, (samples, _PIXELS, _PIXELS))


def _text(samples: int) -> Data:
    tokens = torch.randint(_WORDS, (samples, _TOKENS))
    return tokens, tokens.roll(-1, 1)


def _image_and_text(samples: int) -> Data:
    words = torch.randint(_SAID, (samples, _TOKENS))
    return (torch.randn(samples, 3, _PIXELS, _PIXELS), words), (torch.randint(_CLASSES, (samples,)), words[:, 0])


def _both(scores: tuple[Tensor, Tensor], targets: tuple[Tensor, Tensor]) -> Tensor:
    return cross_entropy(scores[0], targets[0]) + cross_entropy(scores[1], targets[1])


def _next_words(scores: Tensor, words: Tensor) -> Tensor:
    return cross_entropy(scores.flatten(0, 1), words.flatten())


TASKS = {
    "ResNet-110": Task(lambda: deep_resnet(110), _images),
    "ResNet-1001": Task(lambda: deep_resnet(1001), _images),
    "VGG16": Task(lambda: vgg(16, _CLASSES, narrower=4), _images),
    "transformer": Task(lambda: Decoder(tokens=_TOKENS, words=_WORDS), _text, _next_words),
    "U-Net": Task(UNet, _segments),
    "two towers": Task(lambda: TwoTowers(_CLASSES, _SAID), _image_and_text, _both),
}
"""By name. VGG16 has a quarter of its channels, and 8.4 million weights, most of them in one layer. The transformer's
output layer has its embedding's weights. The two towers have two inputs and two outputs.
"""
