"""Training with parameter servers: gRPC carries the requests for tensors, Paceline's engine carries the tensors.

That is how TensorFlow's gRPC+MPI and gRPC+verbs divide the work: whoever needs a tensor asks its producer for it by
gRPC, and the producer sends it by the other way.
"""

from __future__ import annotations

import importlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from ..pattern import Array
from .meeting import addresses
from .steps import RATE
from .tf_server import shares
from .tf_steps import TfSteps

_METHOD = "/paceline_bench.characterize/Send"
_WEIGHT, _ODD = 1 << 20, 1 << 21
"""Added to the number of a tensor in its tag: for a weight, not a gradient; in every other step."""


class TfX(TfSteps):
    """Every rank is a worker and a server of an equal share of the weights, as with `tf_server.TfServer`.

    Gradients are sent as soon as they are computed.
    """

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        super().__init__(options, timeout)
        self._timeout = timeout
        everybody = addresses(timeout)
        self._group: Any = importlib.import_module("paceline").init(timeout=timeout)
        self._lock = threading.Lock()
        self._produced: dict[int, Array] = {}
        self._asked: dict[int, list[int]] = {}
        self._sending: list[Any] = []
        self._parity = 0
        grpc: Any = importlib.import_module("grpc")
        self._server = grpc.server(ThreadPoolExecutor(1))
        handler = grpc.method_handlers_generic_handler(
            "paceline_bench.characterize", {"Send": grpc.unary_unary_rpc_method_handler(self._request)}
        )
        self._server.add_generic_rpc_handlers((handler,))
        if not self._server.add_insecure_port(everybody[self.rank]):
            raise OSError(f"cannot listen at {everybody[self.rank]}")
        self._server.start()
        self._channels = [grpc.insecure_channel(address) for address in everybody]
        self._ask = [channel.unary_unary(_METHOD) for channel in self._channels]
        self._group.barrier()
        self.about = f"parameter servers, requests over gRPC and tensors over Paceline, with {self.about}"

    def build(self, model: str, batch: int, pixels: int) -> None:
        """Make the model, and buffers for what comes from others."""
        super().build(model, batch, pixels)
        self._held = [weight.copy() for weight in self.weights()]
        self._owners = shares([weight.nbytes for weight in self._held], self.size)
        others = [rank for rank in range(self.size) if rank != self.rank]
        self._parts = {
            place: {rank: np.empty_like(self._held[place]) for rank in others}
            for place, owner in enumerate(self._owners)
            if owner == self.rank
        }
        self._own_gradients: dict[int, Array] = {}

    def step(self) -> float:
        """Make one step; it ends when this rank has all new weights."""
        self._parity ^= _ODD
        wanted = [(place, rank) for place, parts in self._parts.items() for rank in parts]
        gradients = [self._fetch(self._parts[place][rank], rank, place + self._parity) for place, rank in wanted]
        ready = super().step()
        for operation, answer in gradients:
            operation.wait()
            answer.result(self._timeout)
        for place, parts in self._parts.items():
            total = sum(parts.values(), self._own_gradients[place])
            self._held[place] -= np.float32(RATE / self.size) * total
            self._produce(place + _WEIGHT + self._parity, self._held[place])
        elsewhere = [place for place, owner in enumerate(self._owners) if owner != self.rank]
        weights = [
            self._fetch(self._held[place], self._owners[place], place + _WEIGHT + self._parity) for place in elsewhere
        ]
        for operation, answer in weights:
            operation.wait()
            answer.result(self._timeout)
        for variable, weight in zip(self._variables, self._held, strict=True):
            variable.assign(weight)
        self._finish()
        return ready

    def close(self) -> None:
        """Leave the job."""
        for channel in self._channels:
            channel.close()
        self._server.stop(None)
        self._group.close()

    def _step(self) -> Any:
        own = self._compute()
        with tf.control_dependencies(own):
            ready = tf.timestamp()
        handed = [
            tf.numpy_function(partial(self._hand_out, place), [gradient], tf.int32)
            for place, gradient in enumerate(own)
        ]
        with tf.control_dependencies(handed):
            return tf.identity(ready)

    def _hand_out(self, place: int, gradient: Array) -> Any:
        if self._owners[place] == self.rank:
            self._own_gradients[place] = gradient
        else:
            self._produce(place + self._parity, gradient)
        return np.int32(0)

    def _fetch(self, into: Array, producer: int, tag: int) -> tuple[Any, Any]:
        """Ask a rank for a tensor; return the operation that receives it, and the answer to the request."""
        operation = self._group.recv(into, producer, tag, async_op=True)
        return operation, self._ask[producer].future(json.dumps([self.rank, tag]).encode(), timeout=self._timeout)

    def _produce(self, tag: int, tensor: Array) -> None:
        """Send a tensor to all that have asked for it, and keep it for those that will ask."""
        with self._lock:
            self._produced[tag] = tensor
            for rank in self._asked.pop(tag, ()):
                self._send(rank, tag)

    def _request(self, request: bytes, context: object) -> bytes:
        rank, tag = json.loads(request)
        with self._lock:
            if tag in self._produced:
                self._send(rank, tag)
            else:
                self._asked.setdefault(tag, []).append(rank)
        return b""

    def _send(self, rank: int, tag: int) -> None:
        self._sending.append(self._group.send(self._produced[tag], rank, tag, async_op=True))

    def _finish(self) -> None:
        """Wait until all others have what they asked for in this step, which is all that this rank produced."""
        self._group.barrier()
        for operation in self._sending:
            operation.wait()
        with self._lock:
            self._sending.clear()
            self._produced.clear()
