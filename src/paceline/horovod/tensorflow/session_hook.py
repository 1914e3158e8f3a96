"""A hook for sessions of TensorFlow 1's kind, which `tf.compat.v1.train.MonitoredTrainingSession` takes."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from paceline.horovod.tensorflow.keras_functions import broadcast_global_variables


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
    """Gives every rank the graph's global variables that `root_rank` has when the session begins.

    `device` is accepted for Horovod's sake.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Add the broadcast to the graph."""
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: object) -> None:
        """Broadcast. Collective."""
        session.run(self.bcast_op)
