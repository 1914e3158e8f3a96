"""The eight networks of ScaleDNN's table II, narrower than there, so that two cores train them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn

from .images import Images
from .models.bert import Bert
from .models.mobile import mnasnet, mobilenet_v2
from .models.plain import alexnet, vgg
from .models.resnet import resnet

CLASSES, PIXELS = 200, 64
"""Classes of Tiny-ImageNet, and pixels to a side of its images."""
_TOKENS, _WORDS = 64, 3800
"""Words of a text, and those that BERT's vocabulary has where it is 8 times narrower."""
_TEXTS = 256
"""Different texts."""
_SAMPLES = 1 << 30

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "VGG-19": partial(vgg, 19, CLASSES, 4),
    "VGG-16": partial(vgg, 16, CLASSES, 4),
    "AlexNet": partial(alexnet, CLASSES, 4),
    "ResNet-34": partial(resnet, 34, CLASSES, 4),
    "ResNet-50": partial(resnet, 50, CLASSES, 4),
    "MobileNet v2": partial(mobilenet_v2, CLASSES, 4),
    "MNASNet 1.3": partial(mnasnet, CLASSES, 1.3 / 4),
    "BERT-large": partial(Bert, 8),
}
"""For each name, a function that makes a new network of the same depth and fewer channels."""


class Texts:
    """A dataset of texts: int64[64], the words' numbers; and a label, 0 or 1."""

    def __init__(self) -> None:
        self._words = torch.randint(_WORDS, (_TEXTS, _TOKENS), generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return _SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self._words[index % _TEXTS], index % 2


@cache
def dataset(name: str) -> Images | Texts:
    """Return the samples for a network of `NETWORKS`, more than any training takes."""
    return Texts() if name == "BERT-large" else Images(_SAMPLES, PIXELS, CLASSES)


def network(name: str) -> nn.Module:
    """Return a new network, the same each time, without dropout, whose random numbers would differ between ranks."""
    torch.manual_seed(1)
    made = NETWORKS[name]()
    for module in made.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        elif isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return made
