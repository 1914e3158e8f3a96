"""The trainings of `paceline bench tune`, each of which runs until somebody ends it: python training.py NAME"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset

import paceline

BATCH = 16
"""Samples of each process and step."""
_CLASSES = 10
_PIXELS = 32
_WORDS, _LENGTH, _WIDTH = 1000, 64, 128
_WORKERS = 1
"""Input workers of each process."""
_SORTED = 1 << 17
"""Numbers that an input worker sorts for each image, in place of reading and decoding it."""


def cnn(wide: int) -> nn.Module:
    """Return a small network of convolutions, with `wide` channels in its first block."""
    layers: list[nn.Module] = []
    before = 3
    for channels, stride in ((wide, 1), (wide, 1), (2 * wide, 2), (2 * wide, 1), (4 * wide, 2), (4 * wide, 1)):
        layers += [nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
        before = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, _CLASSES))


class Transformer(nn.Module):
    """An encoder of two layers over words, with a class for each text."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_WORDS, _WIDTH)
        layer = nn.TransformerEncoderLayer(_WIDTH, 4, 4 * _WIDTH, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.classes = nn.Linear(_WIDTH, _CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        """Return the logits, float32 of shape (batch, classes), for int64 words of shape (batch, length)."""
        logits: Tensor = self.classes(self.layers(self.words(words)).mean(1))
        return logits


class Images(IterableDataset[tuple[Tensor, Tensor]]):
    """Images without end; each takes as long to make as a small JPEG file takes to read and to decode."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield batches: float32 of shape (batch, 3, pixels, pixels), and int64 labels of shape (batch,)."""
        chance = np.random.default_rng(0)
        while True:
            pixels = []
            for _ in range(BATCH):
                made = np.sort(chance.random(_SORTED, np.float32))
                pixels.append(made[: 3 * _PIXELS**2].reshape(3, _PIXELS, _PIXELS))
            yield torch.from_numpy(np.stack(pixels)), torch.zeros(BATCH, dtype=torch.int64)


def batches(name: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of a training without end."""
    if name == "input_bound":
        yield from DataLoader(
            Images(), batch_size=None, num_workers=_WORKERS, worker_init_fn=paceline.worker_init(), prefetch_factor=2
        )
    labels = torch.zeros(BATCH, dtype=torch.int64)
    while True:
        images = torch.randn(BATCH, 3, _PIXELS, _PIXELS)
        yield (torch.randint(_WORDS, (BATCH, _LENGTH)) if name == "transformer" else images), labels


MODELS = {"cnn": lambda: cnn(32), "transformer": Transformer, "input_bound": lambda: cnn(8)}
"""The model of each training, by its name."""


def main(name: str) -> None:
    """Train until somebody ends this process."""
    dist.init_process_group("paceline")
    torch.manual_seed(0)
    model = DistributedDataParallel(MODELS[name]())  # type: ignore[no-untyped-call]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for inputs, labels in batches(name):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
