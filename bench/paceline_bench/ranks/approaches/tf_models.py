"""ResNet-50 and MobileNet (v2) as functions of their weights, so that any of TensorFlow's modes can train them.

They have the weights of `models.resnet` and `models.mobile`, which cite the papers; images are float32 [n, h, w, 3].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..pattern import Array
from .steps import CLASSES, SEED

_RESNET = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Per stage: channels of the 3×3 convolutions, and blocks."""
_MOBILENET = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Per stage: expansion, channels, blocks, stride of the first."""
_EPSILON = 1e-5
"""Added to the variance in a batch normalisation."""

Shape = tuple[int, ...]
Take = Callable[[Shape, str], Any]
"""Gives the next weight, of this shape and purpose: "kernel", "scale" or "shift"."""


def loss(model: str, images: Any, labels: Any, weights: Sequence[Any]) -> Any:
    """Return the mean cross entropy, a scalar. labels: int64 [n]. weights: tensors of the shapes of `initial`."""
    left = iter(weights)
    scores = _NETWORKS[model](images, lambda shape, purpose: next(left))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))


def initial(model: str) -> list[Array]:
    """Return the first weights, float32, the same each time (He et al., 2015, for the kernels)."""
    wanted: list[tuple[Shape, str]] = []

    def note(shape: Shape, purpose: str) -> Any:
        wanted.append((shape, purpose))
        return tf.zeros(shape)

    with tf.Graph().as_default():
        _NETWORKS[model](tf.zeros((1, 64, 64, 3)), note)
    return [_weight(shape, purpose, place) for place, (shape, purpose) in enumerate(wanted)]


def _weight(shape: Shape, purpose: str, place: int) -> Array:
    if purpose != "kernel":
        return np.full(shape, 1.0 if purpose == "scale" else 0.0, np.float32)
    inputs = int(np.prod(shape[:-1])) if shape[-1] > 1 else int(np.prod(shape[:2]))
    random = np.random.default_rng([SEED, place])
    made: Array = random.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / inputs))
    return made


def _convolution(images: Any, take: Take, outputs: int, size: int, stride: int = 1) -> Any:
    kernel = take((size, size, images.shape[-1], outputs), "kernel")
    return _normalised(tf.nn.conv2d(images, kernel, stride, "SAME"), take)


def _normalised(images: Any, take: Take) -> Any:
    channels = images.shape[-1]
    scale, shift = take((channels,), "scale"), take((channels,), "shift")
    found, *_ = tf.compat.v1.nn.fused_batch_norm(images, scale, shift, epsilon=_EPSILON, is_training=True)
    return found


def _scores(images: Any, take: Take) -> Any:
    mean = tf.reduce_mean(images, (1, 2))
    return tf.matmul(mean, take((images.shape[-1], CLASSES), "kernel")) + take((CLASSES,), "shift")


def _resnet(images: Any, take: Take) -> Any:
    found = tf.nn.relu(_convolution(images, take, 64, 7, 2))
    found = tf.nn.max_pool2d(found, 3, 2, "SAME")
    for number, (width, blocks) in enumerate(_RESNET):
        for block in range(blocks):
            stride = 2 if block == 0 and number > 0 else 1
            inside = tf.nn.relu(_convolution(found, take, width, 1))
            inside = tf.nn.relu(_convolution(inside, take, width, 3, stride))
            inside = _convolution(inside, take, 4 * width, 1)
            shortcut = _convolution(found, take, 4 * width, 1, stride) if block == 0 else found
            found = tf.nn.relu(inside + shortcut)
    return _scores(found, take)


def _mobilenet(images: Any, take: Take) -> Any:
    found = tf.nn.relu6(_convolution(images, take, 32, 3, 2))
    for expansion, channels, blocks, first in _MOBILENET:
        for block in range(blocks):
            inside, inputs = found, found.shape[-1]
            if expansion > 1:
                inside = tf.nn.relu6(_convolution(inside, take, expansion * inputs, 1))
            stride = first if block == 0 else 1
            kernel = take((3, 3, inside.shape[-1], 1), "kernel")
            inside = tf.nn.depthwise_conv2d(inside, kernel, (1, stride, stride, 1), "SAME")
            inside = _convolution(tf.nn.relu6(_normalised(inside, take)), take, channels, 1)
            found = found + inside if stride == 1 and inputs == channels else inside
    return _scores(tf.nn.relu6(_convolution(found, take, 1280, 1)), take)


_NETWORKS: dict[str, Callable[[Any, Take], Any]] = {"ResNet-50": _resnet, "MobileNet": _mobilenet}
