"""Training with TensorFlow over Paceline, through its face of Horovod's API for TensorFlow."""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow as tf

from .named_requests import named_requests
from .steps import RATE
from .tf_models import loss
from .tf_steps import TfSteps


class TfHorovod(TfSteps):
    """A DistributedGradientTape submits each gradient by name as soon as it is computed."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        super().__init__(options, timeout)
        self._hvd: Any = importlib.import_module("paceline.horovod.tensorflow")
        self._hvd.init()
        self.about = f"paceline.horovod.tensorflow with {self.about}"

    def requests(self) -> list[tuple[float, float, float, float]]:
        """Return those of the gradients."""
        return named_requests()

    def close(self) -> None:
        """Leave the job."""
        self._hvd.shutdown()

    def _step(self) -> Any:
        with _Noting() as tape:
            found = loss(self._model, self._images, self._labels, self._variables)
        tape = self._hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(found, self._variables)
        with tf.control_dependencies(tape.own):
            ready = tf.timestamp()
        for variable, gradient in zip(self._variables, gradients, strict=True):
            variable.assign_sub(RATE * gradient)
        return ready


class _Noting(tf.GradientTape):  # type: ignore[misc]
    """A tape that keeps this rank's own gradients, to tell when they were computed."""

    def gradient(self, *arguments: Any, **options: Any) -> Any:
        """Return the gradients, and keep them."""
        self.own = super().gradient(*arguments, **options)
        return self.own
