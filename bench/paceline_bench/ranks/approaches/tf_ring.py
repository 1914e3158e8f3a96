"""Training with TensorFlow's MultiWorkerMirroredStrategy, whose ring sends gradients by gRPC."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from .meeting import addresses
from .tf_steps import TfSteps


class TfRing(TfSteps):
    """The strategy with `CommunicationImplementation.RING`; it packs gradients as it likes."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        super().__init__(options, timeout)
        task = {"type": "worker", "index": self.rank}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses(timeout)}, "task": task})
        ring = tf.distribute.experimental.CommunicationImplementation.RING
        chosen = tf.distribute.experimental.CommunicationOptions(implementation=ring)
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=chosen)
        self.about = f"MultiWorkerMirroredStrategy's ring with {self.about}"

    def exchange(self, gradients: list[Any]) -> list[Any]:
        """Return the means."""
        context = tf.distribute.get_replica_context()
        mean: list[Any] = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        return mean

    def _step(self) -> Any:
        return self._strategy.run(super()._step)
