"""Training in a `tf.function`: what computes is the same for all approaches, what exchanges gradients is not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..pattern import Array
from .steps import CLASSES, RATE, Steps
from .tf_models import initial, loss

THREADS = 1
"""Threads that compute in parallel, within an op and beside each other."""


class TfSteps(Steps):
    """Steps that exchange nothing; approaches say what `exchange` does."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(THREADS)
        tf.config.threading.set_inter_op_parallelism_threads(THREADS)
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.about = f"TensorFlow {tf.__version__}"

    def build(self, model: str, batch: int, pixels: int) -> None:
        """Make the model and this rank's images."""
        random = np.random.default_rng(100 + self.rank)
        self._model = model
        self._images = tf.constant(random.standard_normal((batch, pixels, pixels, 3), np.float32))
        self._labels = tf.constant(random.integers(0, CLASSES, batch))
        self._variables = [tf.Variable(weight) for weight in initial(model)]
        self._own, self._train = tf.function(self._compute), tf.function(self._step)

    def weights(self) -> Sequence[Array]:
        """Return copies of the weights."""
        return [variable.numpy() for variable in self._variables]

    def gradients(self) -> Sequence[Array]:
        """Return this rank's own gradients."""
        return [gradient.numpy() for gradient in self._own()]

    def step(self) -> float:
        """Make one step."""
        return float(self._train())

    def exchange(self, gradients: list[Any]) -> list[Any]:
        """Return the mean of all ranks' gradients; called while the `tf.function` is traced."""
        return gradients

    def close(self) -> None:
        """Do nothing, because nobody was met."""

    def _compute(self) -> list[Any]:
        with tf.GradientTape() as tape:
            found = loss(self._model, self._images, self._labels, self._variables)
        gradients: list[Any] = tape.gradient(found, self._variables)
        return gradients

    def _step(self) -> Any:
        own = self._compute()
        with tf.control_dependencies(own):
            ready = tf.timestamp()
        for variable, gradient in zip(self._variables, self.exchange(own), strict=True):
            variable.assign_sub(RATE * gradient)
        return ready
