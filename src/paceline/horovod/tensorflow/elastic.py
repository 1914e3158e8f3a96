"""`hvd.elastic`: training that continues from its last commit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import tensorflow as tf

from paceline.horovod.basics import init, rank, shutdown
from paceline.horovod.elastic import ObjectState, State, run_fn
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.tensorflow.functions import broadcast_object, broadcast_variables
from paceline.horovod.tensorflow.keras_optimizer import forget_passes
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.optimizer_variables import create_optimizer_variables, optimizer_variables

__all__ = ["ObjectState", "State", "TensorFlowKerasState", "TensorFlowState", "run"]

T = TypeVar("T")


def run(func: Callable[..., T]) -> Callable[..., T]:
    """Decorate `func(state, ...)` so that all ranks start with rank 0's state, and continue from their last commit
    after a failed collective.

    `paceline.horovod.elastic` says what this requires. Where TensorFlow raises an error of its own for a collective
    that failed because of another rank, the decorated function sees HorovodInternalError.
    """

    @functools.wraps(func)
    def translated(state: State, *arguments: Any, **keywords: Any) -> T:
        with _failures_of_collectives():
            return func(state, *arguments, **keywords)

    return run_fn(translated, _reset)


@contextmanager
def _failures_of_collectives() -> Iterator[None]:
    """Raise HorovodInternalError for a collective that failed because of another rank, not TensorFlow's own error."""
    try:
        yield
    except tf.errors.OpError as error:
        cause = LIBRARY.last_failure
        if cause is None or str(cause) not in error.message:
            raise
        raise HorovodInternalError(str(cause)) from cause


class TensorFlowState(ObjectState):
    """Variables and plain objects as one state: `TensorFlowState(variables, batch=0, epoch=0)`.

    `session` is accepted and not needed.
    """

    def __init__(self, variables: Iterable[Any], session: object = None, **kwargs: Any) -> None:
        self.variables = list(variables)
        self._saved_values = _values(self._listed())
        super().__init__(broadcast_object, rank, **kwargs)

    def save(self) -> None:
        """Keep the present state in memory."""
        self._saved_values = _values(self._listed())
        super().save()

    def restore(self) -> None:
        """Restore the state that was saved last."""
        for variable, value in zip(self._listed(), self._saved_values, strict=True):
            variable.assign(value)
        super().restore()

    def sync(self) -> None:
        """Give every rank rank 0's state, and save it. Collective."""
        with _failures_of_collectives():
            broadcast_variables(self._listed(), root_rank=0)
        self._saved_values = _values(self._listed())
        super().sync()

    def _listed(self) -> list[Any]:
        return self.variables


class TensorFlowKerasState(TensorFlowState):
    """A model, its optimizer and plain objects as one state: `TensorFlowKerasState(model, batch=0, epoch=0)`.

    optimizer: by default the one that the model was compiled with. `backend` is accepted and not needed. Raises
    ValueError for a model that is not built.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: object = None, **kwargs: Any) -> None:
        if not getattr(model, "built", True):
            raise ValueError("Model must be built first. Run `model.build(input_shape)`.")
        self.model = model
        self.optimizer = optimizer or model.optimizer
        # Or a rank that comes later would have fewer variables than those that have trained.
        create_optimizer_variables(self.optimizer, model.trainable_variables)
        super().__init__((), **kwargs)

    def restore(self) -> None:
        """Restore the state that was saved last; gradients of passes since the last step are forgotten."""
        super().restore()
        forget_passes(self.optimizer)

    def sync(self) -> None:
        """Give every rank rank 0's state, and save it; gradients of passes since the last step are forgotten."""
        super().sync()
        forget_passes(self.optimizer)

    def _listed(self) -> list[Any]:
        return [*self.model.variables, *optimizer_variables(self.optimizer)]


def _values(variables: Iterable[Any]) -> list[Any]:
    return [tf.identity(tf.convert_to_tensor(variable)) for variable in variables]


def _reset() -> None:
    shutdown()
    init()
