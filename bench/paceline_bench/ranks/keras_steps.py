"""Training steps of a Keras model in a `tf.function`, and whether they did the right thing."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .pattern import Array

PIXELS, CLASSES = 32, 100
WIDTHS = (64, 128, 256)
"""Channels of the 3×3 convolutions, each of which halves the image."""
HIDDEN = 2048
"""Units of the layer before the last."""
RATE = 2.0**-6
_SEED = 1
_TOLERANCE = 1e-3
"""The largest error that a change of a weight may have, as a share of the largest of its tensor."""
_ROUNDING = 2.0**-22
"""The largest error of a change that is read from the difference of two weights, as a share of the weight."""


@dataclass(frozen=True)
class Way:
    """A way for ranks to exchange gradients.

    scope: where the model is made. wrapped: gives the optimizer to use for a plain one. run: what a step runs in.
    """

    scope: Callable[[], AbstractContextManager[Any]]
    wrapped: Callable[[Any], Any]
    run: Callable[[Callable[[], None]], Any]


class KerasSteps:
    """A small convolutional network that learns random images, the same network on all ranks, with images of their own.

    batch: images per rank and step. way: how ranks exchange gradients.
    """

    def __init__(self, rank: int, size: int, batch: int, way: Way) -> None:
        self._size, self._batch = size, batch
        with way.scope():
            model = self._model = _network()
            optimizer = way.wrapped(keras.optimizers.SGD(RATE))
            optimizer.build(model.trainable_variables)
        images, labels = map(tf.constant, _images(rank, batch))

        def step() -> None:
            with tf.GradientTape() as tape:
                loss = _loss()(labels, model(images, training=True))  # Keras divides it by a strategy's ranks
            variables = model.trainable_variables
            gradients = tape.gradient(loss, [variable.value for variable in variables])
            optimizer.apply_gradients(zip(gradients, variables, strict=True))

        self._step = tf.function(lambda: way.run(step))
        self.bytes = sum(weight.nbytes for weight in self._weights())

    def wrong(self) -> int:
        """Make a step; return the number of weights that it changed by something else than the mean gradient."""
        before = self._weights()
        self._step()
        wrong = 0
        for old, new, gradient in zip(before, self._weights(), self._mean_gradients(before), strict=True):
            change = RATE * gradient
            found = old.astype(np.float64) - new
            allowed = _TOLERANCE * np.abs(change).max() + _ROUNDING * np.abs(old).max()
            wrong += int(np.count_nonzero(~(np.abs(found - change) <= allowed)))
        return wrong

    def timed(self, steps: int) -> dict[str, float]:
        """Make an untimed step and `steps` timed ones; return their wall and CPU seconds, and the optimizer's bytes."""
        self._step()
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            self._step()
        seconds, used = time.perf_counter() - begin, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": used, "state_bytes": 0}  # plain SGD has no state

    def _weights(self) -> list[Array]:
        return [variable.numpy() for variable in self._model.trainable_variables]

    def _mean_gradients(self, weights: list[Array]) -> list[Array]:
        """Return what plain TensorFlow computes for all ranks' images."""
        model, loss = _network(), _loss()
        for variable, weight in zip(model.trainable_variables, weights, strict=True):
            variable.assign(weight)
        sums = [np.zeros(weight.shape) for weight in weights]
        for rank in range(self._size):
            images, labels = _images(rank, self._batch)
            with tf.GradientTape() as tape:
                found = loss(labels, model(images, training=True))
            gradients = tape.gradient(found, [variable.value for variable in model.trainable_variables])
            for total, gradient in zip(sums, gradients, strict=True):
                total += gradient.numpy()
        return [total / self._size for total in sums]


def _network() -> Any:
    keras.utils.set_random_seed(_SEED)
    layers: list[Any] = [keras.layers.Input((PIXELS, PIXELS, 3))]
    layers += [keras.layers.Conv2D(width, 3, 2, "same", activation="relu") for width in WIDTHS]
    layers += [keras.layers.Flatten(), keras.layers.Dense(HIDDEN, activation="relu"), keras.layers.Dense(CLASSES)]
    return keras.Sequential(layers)


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _images(rank: int, count: int) -> tuple[Array, Array]:
    random = np.random.default_rng(100 + rank)
    return random.standard_normal((count, PIXELS, PIXELS, 3), np.float32), random.integers(0, CLASSES, count)
