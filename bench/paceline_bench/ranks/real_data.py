"""Small trainings on real data that packages ship: what encoded gradients and parameters are tried on."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

CONTEXT, SYMBOLS = 32, 128
"""Characters of a text that the transformer sees at once, and those that it tells apart."""
_WIDTH, _HEADS, _LAYERS = 64, 4, 2
"""The size of the transformer."""
_TEST_SHARE = 5
"""One sample in so many is for the test alone."""


@dataclass(frozen=True)
class Samples:
    """inputs[n, …] and targets, int64[n] or int64[n, CONTEXT]."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Task:
    """Data, the network that learns them and how.

    epochs: times that each sample for training is seen. batch: samples per step, of all ranks together. rate: the
    highest learning rate, which falls to 0 as a cosine. decay: of weights.
    """

    data: Callable[[], tuple[Samples, Samples]]
    network: Callable[[], nn.Module]
    optimizer: type[torch.optim.Optimizer]
    epochs: int
    batch: int
    rate: float
    decay: float


class Transformer(nn.Module):
    """Predicts each character from those before it: int64[n, CONTEXT] to scores, [n, SYMBOLS, CONTEXT]."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols, self.places = nn.Embedding(SYMBOLS, _WIDTH), nn.Embedding(CONTEXT, _WIDTH)
        layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, 4 * _WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.norm, self.scores = nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, SYMBOLS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, text: Tensor) -> Tensor:
        """Return the scores of the next character at each place."""
        hidden = self.symbols(text) + self.places(torch.arange(text.shape[1]))
        scores: Tensor = self.scores(self.norm(self.layers(hidden, mask=self.mask, is_causal=True)))
        return scores.transpose(1, 2)


# SiLU and GELU are smooth. At ReLU's corner the last bit of a gradient decides on which side an activation is, and
# trainings that differ by rounding alone drift apart.
def _digits_network() -> nn.Module:
    """Return a network for images float32[n, 1, 8, 8]."""
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 64, 3, padding=1), nn.SiLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.SiLU(), nn.Linear(128, 10)),
    )


def _tabular_network() -> nn.Module:
    """Return a network for rows float32[n, 30]."""
    return nn.Sequential(nn.Linear(30, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 2))


def _divided(inputs: Tensor, targets: Tensor) -> tuple[Samples, Samples]:
    """Return the samples for training and those for the test, by chance but always the same."""
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0))
    test = len(inputs) // _TEST_SHARE
    parts = (order[test:], order[:test])
    return Samples(inputs[parts[0]], targets[parts[0]]), Samples(inputs[parts[1]], targets[parts[1]])


@cache
def digits() -> tuple[Samples, Samples]:
    """Return the 1797 handwritten digits of 8×8 pixels that scikit-learn ships."""
    images, labels = importlib.import_module("sklearn.datasets").load_digits(return_X_y=True)
    return _divided(torch.from_numpy(images).float().reshape(-1, 1, 8, 8) / 16 - 0.3, torch.from_numpy(labels).long())


@cache
def tumours() -> tuple[Samples, Samples]:
    """Return the 569 rows on breast cancer of scikit-learn: 30 measured features, benign or malignant."""
    rows, labels = importlib.import_module("sklearn.datasets").load_breast_cancer(return_X_y=True)
    features = torch.from_numpy(rows).float()
    return _divided((features - features.mean(0)) / features.std(0), torch.from_numpy(labels).long())


@cache
def manual() -> tuple[Samples, Samples]:
    """Return pieces of Python's own reference manual, which its `help()` shows, each with the characters that follow
    its characters.
    """
    topics = importlib.import_module("pydoc_data.topics").topics
    text = "\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    symbols = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    count = (len(symbols) - 1) // CONTEXT
    inputs, targets = (symbols[begin : begin + count * CONTEXT].view(count, CONTEXT) for begin in (0, 1))
    return _divided(inputs, targets)


TASKS = {
    "digits": Task(digits, _digits_network, torch.optim.SGD, epochs=15, batch=64, rate=0.05, decay=5e-4),
    "text": Task(manual, Transformer, torch.optim.AdamW, epochs=3, batch=32, rate=1e-2, decay=1e-2),
    "tabular": Task(tumours, _tabular_network, torch.optim.SGD, epochs=60, batch=64, rate=0.05, decay=5e-4),
}
"""The trainings by name."""
