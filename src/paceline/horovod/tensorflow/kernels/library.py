"""Loads the library of ops into TensorFlow, and carries out what its kernels ask for.

An all-reduce of one named tensor, such as a gradient, they ask for once: it is prepared then, and the kernel hands it
in again and again without Python, until its shape or the job is another one.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from paceline.errors import CommunicationError
from paceline.horovod import job
from paceline.horovod.adasum_exchange import Course
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.handles import Pending
from paceline.horovod.tensorflow.kernels import control as control  # registers itself
from paceline.horovod.tensorflow.kernels import exchanges, queries, reductions
from paceline.horovod.tensorflow.kernels.call import Call, Functions
from paceline.horovod.tensorflow.kernels.memory import INT32, read
from paceline.horovod.tensorflow.kernels.node import Node
from paceline.horovod.tensorflow.kernels.residuals import Residuals

if TYPE_CHECKING:
    from paceline.coordinate import Request

_KERNELS = {
    "Allgather": exchanges.allgather,
    "Allreduce": reductions.allreduce,
    "AllreduceStart": reductions.allreduce,
    "Alltoall": exchanges.alltoall,
    "Broadcast": exchanges.broadcast,
    "Reducescatter": reductions.reducescatter,
}
_CREATE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t)
_COMPUTE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t)
_DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class Library:
    """The library in this process. `ops` is the module of its ops, as `tf.load_op_library` makes it.

    last_failure: the error of the last call that failed because of other ranks.

    Raises RuntimeError if this TensorFlow lacks a function that the library needs.
    """

    def __init__(self) -> None:
        path = str(_path())
        self.ops = tf.load_op_library(path)  # before anybody else opens it: TensorFlow notes what it registers
        self._native = ctypes.CDLL(path)
        self._native.paceline_tensorflow_missing.restype = ctypes.c_char_p
        missing = self._native.paceline_tensorflow_missing()
        if missing:
            raise RuntimeError(f"TensorFlow {tf.__version__} has no {missing.decode()}, which Paceline's ops need")
        self._functions = _functions(self._native)
        self._nodes: dict[int, Node] = {}
        self._residuals = Residuals()
        self._numbers = itertools.count()
        self._hooks = (_CREATE(self._create), _COMPUTE(self._compute), _DESTROY(self._destroy))
        self._native.paceline_tensorflow_connect(*self._hooks)
        self.last_failure: CommunicationError | None = None

    def _create(self, node: int, size: int) -> int:
        try:
            number = next(self._numbers)
            self._nodes[number] = Node.parse(ctypes.string_at(node, size))
            return number
        except Exception:
            return -1

    def _destroy(self, kernel: int) -> None:
        self._nodes.pop(kernel, None)

    def _compute(self, kernel: int, number: int, description: Any, count: int) -> None:
        node = self._nodes[kernel]
        call = Call(node.op, number, read(description[:count]), self._residuals, self._functions)
        try:
            self._carry_out(node, call)
        except BaseException as error:
            self._fail(call, error)

    def _carry_out(self, node: Node, call: Call) -> None:
        """Begin a call, which ends later if this raises nothing."""
        if node.op == "Query":
            call.output(0, INT32, ()).array()[...] = queries.answer(node.question, node.process_set)
            call.succeed()
            return
        channel = job.current().channel(node.process_set, node.op)
        prepared = reductions.prepared(node, channel, call, partial(self._fail_repeated, node.op))
        if prepared is not None:
            call.repeat(prepared)
            return
        pending = queries.join(channel, call) if node.op == "Join" else _KERNELS[node.op](node, channel, call)
        _when_over(pending, lambda: self._conclude(call, pending))

    def _conclude(self, call: Call, pending: Pending[None]) -> None:
        try:
            pending.result()
        except BaseException as error:
            self._fail(call, error)
        else:
            call.succeed()

    def _fail(self, call: Call, error: BaseException) -> None:
        if isinstance(error.__cause__, CommunicationError):
            self.last_failure = error.__cause__
        call.fail(error)

    def _fail_repeated(self, op: str, number: int, error: CommunicationError | ValueError) -> None:
        failed: Exception = error
        if isinstance(error, CommunicationError):
            failed = HorovodInternalError(str(error))
            failed.__cause__ = error
        self._fail(Call(op, number, (), self._residuals, self._functions), failed)


def _functions(native: ctypes.CDLL) -> Functions:
    def function(name: str, result: type | None, *arguments: type) -> Any:
        found = native[f"paceline_tensorflow_{name}"]
        found.restype, found.argtypes = result, (ctypes.c_void_p, *arguments)
        return found

    number = ctypes.c_int
    return Functions(
        allocate=function("allocate", ctypes.c_void_p, number, number, ctypes.c_void_p, number, ctypes.c_size_t),
        end=function("end", None, number, ctypes.c_char_p),
        repeat=function("repeat", None, ctypes.c_void_p),
    )


def _path() -> Path:
    engine = importlib.util.find_spec("paceline._engine")
    assert engine is not None and engine.origin is not None
    return Path(engine.origin).with_name("_tensorflow.so")


def _when_over(pending: Pending[None], then: Callable[[], None]) -> None:
    """Call `then` once when all requests of a call are over, well or not, from any thread."""
    left = itertools.count(len(pending.requests) - 1, -1)  # taking the next number is atomic

    def one_over() -> None:
        if next(left) == 0:
            then()

    for request in pending.requests:
        _notify(pending, request, one_over)


def _notify(pending: Pending[None], request: Request | Course, then: Callable[[], None]) -> None:
    if isinstance(request, Course):
        request.when_over(then)
        return
    try:
        pending.channel.coordinator.when_over(request, then)
    except CommunicationError:  # nothing is reported any more: the engine has given up all that was under way
        then()


LIBRARY = Library()
"""The library in this process."""
