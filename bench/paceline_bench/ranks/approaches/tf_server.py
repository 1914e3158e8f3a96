"""Training with TensorFlow's parameter servers: workers compute gradients, servers apply them, gRPC moves everything.

That is synchronous between-graph replication, as tf_cnn_benchmarks did it when the approaches were first compared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..pattern import Array
from .meeting import addresses
from .steps import CLASSES, RATE, Steps
from .tf_models import initial, loss
from .tf_steps import THREADS

v1 = tf.compat.v1
_AGAIN_SECONDS = 0.05
"""Seconds between two looks for the weights that rank 0 initialises."""


class TfServer(Steps):
    """Every rank is a worker and also a server, which holds an equal share of the weights' bytes.

    A server averages the gradients of all workers with accumulators, and lets them go on by tokens
    (`tf.compat.v1.train.SyncReplicasOptimizer`). There are no tokens at first, so that no worker is a step ahead.
    """

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        v1.disable_eager_execution()
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._timeout = timeout
        self._cluster = tf.train.ClusterSpec({"worker": addresses(timeout)})
        self._threads = v1.ConfigProto(
            intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=THREADS, use_per_session_threads=False
        )
        self._server = tf.distribute.Server(self._cluster, "worker", self.rank, protocol="grpc", config=self._threads)
        self._built = 0
        self._session: Any = None
        self.about = f"parameter servers over gRPC with TensorFlow {tf.__version__}"

    def build(self, model: str, batch: int, pixels: int) -> None:
        """Make the model's graph and this rank's images."""
        self.close()
        self._built += 1
        random = np.random.default_rng(100 + self.rank)
        images = random.standard_normal((batch, pixels, pixels, 3), np.float32)
        labels = random.integers(0, CLASSES, batch)
        weights = initial(model)
        worker = f"/job:worker/task:{self.rank}"
        # The servers share what has the same name in two graphs, also a queue of tokens, unless it is in a container.
        with tf.Graph().as_default() as graph, graph.container(f"built{self._built}"), v1.device(worker):
            first = [v1.placeholder(tf.float32, weight.shape) for weight in weights]
            owners = shares([weight.nbytes for weight in weights], self.size)
            self._variables = []
            for place, owner in enumerate(owners):
                with v1.device(f"/job:worker/task:{owner}"):
                    self._variables.append(v1.get_variable(f"weight{place}", initializer=first[place]))
            with v1.device("/job:worker/task:0"):
                step = v1.train.create_global_step()
            found = loss(model, tf.constant(images), tf.constant(labels), self._variables)
            plain = v1.train.GradientDescentOptimizer(RATE)
            optimizer = v1.train.SyncReplicasOptimizer(plain, self.size, self.size)
            pairs = optimizer.compute_gradients(found, self._variables)
            with tf.control_dependencies([gradient for gradient, _ in pairs]):
                ready = tf.timestamp()
            self._train = [optimizer.apply_gradients(pairs, global_step=step), ready]
            missing = v1.report_uninitialized_variables(v1.global_variables())
            missing.mark_used()  # rank 0 does not ask
            graph.finalize()
            self._session = v1.Session(self._server.target, config=self._threads)
            if self.rank == 0:
                feeds = dict(zip(first, weights, strict=True))
                self._session.run([variable.initializer for variable in self._variables], feeds)
                self._session.run(step.initializer)  # the last, because the others wait for all of them
                self._session.run(optimizer.chief_init_op)
                self._coordinator = tf.train.Coordinator()
                runner = optimizer.get_chief_queue_runner()
                runner.create_threads(self._session, self._coordinator, daemon=True, start=True)
            else:
                self._await(missing)
                self._session.run(optimizer.local_step_init_op)

    def weights(self) -> Sequence[Array]:
        """Return copies of the weights, from all servers."""
        found: list[Array] = self._session.run(self._variables)
        return found

    def gradients(self) -> Sequence[Array]:
        """Return nothing: the approach that exchanges nothing gives the reference."""
        return []

    def step(self) -> float:
        """Make one step, which ends when the servers have applied the gradients of all workers."""
        _, ready = self._session.run(self._train)
        return float(ready)

    def close(self) -> None:
        """End the session; the servers last as long as the process."""
        if self._session is not None:
            if self.rank == 0:
                self._coordinator.request_stop()
            self._session.close()
            self._session = None

    def _await(self, missing: Any) -> None:
        deadline = time.monotonic() + self._timeout
        while len(self._session.run(missing)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"rank 0 did not initialise the weights within {self._timeout:g} s")
            time.sleep(_AGAIN_SECONDS)


def shares(sizes: Sequence[int], servers: int) -> list[int]:
    """Return the server of each tensor: in turn the one that has the fewest bytes so far."""
    held, owners = [0] * servers, []
    for size in sizes:
        owner = held.index(min(held))
        held[owner] += size
        owners.append(owner)
    return owners
