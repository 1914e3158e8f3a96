"""Turns an optimizer of Keras, or one of TensorFlow 1, into one that combines gradients over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from paceline.horovod.tensorflow.gradients import Gradients
from paceline.horovod.tensorflow.local_aggregation import LocalAggregation
from paceline.horovod.tensorflow.loss_scale import agree_on_finite_gradients
from paceline.horovod.tensorflow.optimizer_variables import create_optimizer_variables


def distributed(optimizer: Any, gradients: Gradients, passes: int, average: bool) -> Any:
    """Return an optimizer of the same class name and configuration that combines gradients.

    passes: the number of backward passes over which gradients are accumulated before. average: whether their sum is
    divided by that number.

    Raises ValueError for a number of passes that makes no sense.
    """
    if passes < 1:
        raise ValueError("backward_passes_per_step must be > 0")
    kind = type(optimizer)
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        if passes > 1:
            raise ValueError("backward_passes_per_step > 1 is not supported for optimizers of TensorFlow 1")
        made: Any = object.__new__(type(kind.__name__, (_TensorFlow1, kind), {}))
        made.__dict__.update(vars(optimizer))
        made._gradients = gradients
        return made
    front = _Keras3 if hasattr(kind, "apply") else _Keras2
    if front is _Keras3:
        agree_on_finite_gradients()
    # A saved model names the optimizer's class: with these names it loads where there is no Horovod.
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    settings = {"_gradients": gradients, "_passes": passes, "_average": average}
    wrapped: Any = type(kind.__name__, (front, kind), {**names, **settings})
    return wrapped.from_config(optimizer.get_config())


def forget_passes(optimizer: Any) -> None:
    """Let an optimizer forget the gradients of passes that it has not combined yet, if it is one that adds them up."""
    while optimizer is not None:
        helper = getattr(optimizer, "_agg_helper", None)
        if helper is not None:
            helper.reset()
        optimizer = getattr(optimizer, "inner_optimizer", None)  # of one that scales losses


class _Distributed:
    """A base class that is put before the optimizer's own class. Instances made from its configuration are alike."""

    _gradients: Gradients
    _passes: int
    _average: bool

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        several = self._passes > 1
        self._agg_helper = LocalAggregation(self._gradients, self._passes, self._average) if several else None

    def register_local_var(self, variable: Any) -> None:
        """Leave the gradient of this variable out; it stays this rank's own."""
        self._gradients.register_local(variable)

    def _combined(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        if self._agg_helper is None:
            return self._gradients.combine(gradients, variables)
        return self._agg_helper.compute_gradients(gradients, variables)


class _Keras3(_Distributed):
    """Combines gradients when they are applied, which is how Keras 3 hands them to an optimizer."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Combine the gradients of all ranks, then change the variables by them. Collective."""
        optimizer: Any = super()
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)  # type: ignore[attr-defined]
        create_optimizer_variables(self, variables)
        combined = self._combined(list(grads), variables)
        if self._agg_helper is None:
            return optimizer.apply(combined, trainable_variables)
        return self._agg_helper.apply_gradients(
            lambda: optimizer.apply(combined, trainable_variables),
            lambda: self.iterations.assign_add(1),  # type: ignore[attr-defined]
        )


class _Keras2(_Distributed):
    """Combines gradients when they are computed, as Keras 2 lets its subclasses do."""

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Return the combined gradients of `loss` with respect to `params`, for a graph of TensorFlow 1. Collective."""
        own: Any = super()
        return self._combined(own.get_gradients(loss, params), params)

    def compute_gradients(self, loss: Any, var_list: Any, tape: Any = None) -> list[tuple[Any, Any]]:
        """Return pairs of a combined gradient and its variable. Collective."""
        return self._compute_gradients(loss, var_list, None, tape)

    def _compute_gradients(
        self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None
    ) -> list[tuple[Any, Any]]:
        own: Any = super()
        tape = tf.GradientTape() if tape is None else tape
        if hasattr(own, "_compute_gradients"):  # an optimizer of keras.optimizers.legacy
            pairs = own._compute_gradients(loss, var_list, grad_loss, tape=tape)
        else:
            pairs = own.compute_gradients(loss, var_list, tape=tape)
        gradients, variables = zip(*pairs, strict=True)
        return list(zip(self._combined(gradients, variables), variables, strict=True))

    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **keywords: Any) -> Any:
        """Change the variables by gradients that `compute_gradients` returned."""
        own: Any = super()
        pairs = list(grads_and_vars)
        if self._agg_helper is None:
            return own.apply_gradients(pairs, *arguments, **keywords)
        create_optimizer_variables(self, [variable for _, variable in pairs])
        return self._agg_helper.apply_gradients(
            lambda: own.apply_gradients(pairs, *arguments, **keywords),
            lambda: self.iterations.assign_add(1),  # type: ignore[attr-defined]
        )


class _TensorFlow1:
    """Combines gradients when they are computed."""

    _gradients: Gradients

    @property
    def _optimizer(self) -> Any:
        """The optimizer as scripts find it in Horovod's, which wraps it."""
        return self

    def compute_gradients(self, *arguments: Any, **keywords: Any) -> list[tuple[Any, Any]]:
        """Return pairs of a combined gradient and its variable. Collective."""
        own: Any = super()
        gradients, variables = zip(*own.compute_gradients(*arguments, **keywords), strict=True)
        return list(zip(self._gradients.combine(gradients, variables), variables, strict=True))

    def register_local_var(self, variable: Any) -> None:
        """Leave the gradient of this variable out; it stays this rank's own."""
        self._gradients.register_local(variable)
