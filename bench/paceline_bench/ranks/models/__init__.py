"""Networks for benchmarks, with the same layers and numbers of weights as torchvision's of the same names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from .googlenet import googlenet
from .inception import inception_v3
from .plain import alexnet, vgg
from .resnet import BLOCKS, resnet

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{f"ResNet-{layers}": partial(resnet, layers) for layers in BLOCKS},
    "AlexNet": alexnet,
    "GoogLeNet": googlenet,
    "Inception-v3": inception_v3,
    "VGG16": partial(vgg, 16),
}
"""For each name, a function that makes a new network of 1000 classes."""


def pixels(name: str) -> int:
    """Return the width and height of the images that a network is meant for."""
    return 299 if name == "Inception-v3" else 224
