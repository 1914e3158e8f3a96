"""TensorFlow's benchmarks: a model's gradients summed in a `tf.function`, and training steps of a small Keras model.

The function makes the gradients, as a training does, so that it can give their memory away: TensorFlow never writes to
a tensor that its caller keeps.
"""

from __future__ import annotations

import importlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from .adapter import Call, Unsupported
from .approaches.meeting import addresses
from .case import Case, aligned
from .keras_steps import KerasSteps, Way
from .pattern import Array
from .whole import Whole


class _Gradients(ABC):
    """A job whose ranks sum the gradients that `options["gradients"]` names, with their elements, as JSON.

    options["batch"]: images per rank and step of the Keras model.
    """

    rank: int
    size: int
    about: str

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        self._gradients, self._batch = json.loads(options["gradients"]), int(options["batch"])
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.join(timeout)
        self._variables = [tf.Variable(tf.zeros(elements), name=name) for name, elements in self._gradients]
        self._one = tf.function(lambda one: self.sums([one], self._variables[:1]))
        self._steps: KerasSteps | None = None

    @abstractmethod
    def join(self, timeout: float) -> None:
        """Join the job. timeout: seconds."""

    @abstractmethod
    def sums(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Sequence[Any]:
        """Return the sums of the variables' gradients over the ranks; called while a `tf.function` is traced."""

    @abstractmethod
    def steps(self) -> KerasSteps:
        """Return the training steps of a new Keras model."""

    def memory(self, size: int) -> Array:
        """Return ordinary memory, uint8[size]."""
        return aligned(size)

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return the call that makes all gradients and sums them once, and returns the sums.

        Raises Unsupported for all but sums.
        """
        if (case.collective, case.op) != ("all_reduce", "sum"):
            raise Unsupported("TensorFlow's sums are measured, and nothing else")
        ends = np.cumsum([elements for _, elements in self._gradients])
        parts = [tf.constant(part) for part in np.split(source, ends[:-1])]
        one = tf.constant(1.0)  # a factor that TensorFlow does not know while it traces the function
        step = tf.function(lambda parts, one: self.sums([part * one for part in parts], self._variables))
        return lambda: Whole(step(parts, one))

    def barrier(self) -> None:
        """Wait until every rank has entered."""
        self._one(tf.zeros(self._gradients[0][1]))

    def algorithm(self) -> str:
        """Return "default", because the systems do not report it."""
        return "default"

    def do_check(self) -> dict[str, int]:
        """Make a step of the Keras model; the answer has the wrong weights, and the bytes of all gradients."""
        self._steps = self.steps()
        return {"wrong": self._steps.wrong(), "bytes": self._steps.bytes}

    def do_train(self, steps: int) -> dict[str, float]:
        """Make an untimed step of the Keras model and `steps` timed ones; return their wall and CPU seconds."""
        assert self._steps is not None
        return self._steps.timed(steps)


class Tape(_Gradients):
    """Through a DistributedGradientTape over Paceline, and Keras' `DistributedOptimizer`."""

    def join(self, timeout: float) -> None:
        """Join the job."""
        self._hvd: Any = importlib.import_module("paceline.horovod.tensorflow")
        self._hvd.init()
        self.about = f"paceline.horovod.tensorflow with TensorFlow {tf.__version__}"

    def sums(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Sequence[Any]:
        """Return the sums."""
        tape = self._hvd.DistributedGradientTape(_Known(gradients), op=self._hvd.Sum)
        found: Sequence[Any] = tape.gradient(None, list(variables))
        return found

    def steps(self) -> KerasSteps:
        """Return the steps of a model whose optimizer averages gradients over Paceline."""
        wrapped = importlib.import_module("paceline.horovod.tensorflow.keras").DistributedOptimizer
        return KerasSteps(self.rank, self.size, self._batch, Way(nullcontext, wrapped, lambda step: step()))

    def close(self) -> None:
        """Leave the job."""
        self._hvd.shutdown()


class Mirrored(_Gradients):
    """Through MultiWorkerMirroredStrategy's all-reduce, by its ring over gRPC."""

    def join(self, timeout: float) -> None:
        """Join the job."""
        task = {"type": "worker", "index": self.rank}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses(timeout)}, "task": task})
        ring = tf.distribute.experimental.CommunicationImplementation.RING
        chosen = tf.distribute.experimental.CommunicationOptions(implementation=ring)
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=chosen)
        self.about = f"MultiWorkerMirroredStrategy's ring in TensorFlow {tf.__version__}"

    def sums(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Sequence[Any]:
        """Return the sums."""

        def reduce() -> Any:
            mine = [tf.identity(gradient) for gradient in gradients]  # which has a device, as the strategy wants it
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, mine)

        found: Sequence[Any] = self._strategy.run(reduce)
        return found

    def steps(self) -> KerasSteps:
        """Return the steps of a model that is made in the strategy's scope."""
        way = Way(self._strategy.scope, lambda optimizer: optimizer, self._strategy.run)
        return KerasSteps(self.rank, self.size, self._batch, way)

    def close(self) -> None:
        """Do nothing, because the strategy ends with the process."""


class _Known(tf.GradientTape):  # type: ignore[misc]
    """A tape whose gradients are known already."""

    def __init__(self, gradients: Sequence[Any]) -> None:
        super().__init__()
        self._known = list(gradients)

    def gradient(self, *arguments: Any, **options: Any) -> Any:
        """Return them."""
        return self._known
