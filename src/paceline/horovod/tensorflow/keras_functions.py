"""The functions of Horovod's Keras API: collectives of anything that makes a tensor, and loading a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from paceline.horovod import ops
from paceline.horovod.tensorflow.allgather import allgather as gather
from paceline.horovod.tensorflow.allreduce import allreduce as reduce
from paceline.horovod.tensorflow.broadcast import broadcast as cast
from paceline.horovod.tensorflow.compression import Compression, Compressor
from paceline.horovod.tensorflow.functions import broadcast_variables
from paceline.horovod.tensorflow.optimizer import keras_optimizer
from paceline.horovod.tensorflow.optimizer_variables import create_optimizer_variables, optimizer_variables
from paceline.horovod.tensorflow.reducescatter import reducescatter as scatter


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: type[Compressor] = Compression.none,
) -> Any:
    """Combine a value over the ranks; see `paceline.horovod.tensorflow.allreduce`."""
    return reduce(
        tf.constant(value),
        average,
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """Return the rows of all ranks' values; see `paceline.horovod.tensorflow.allgather`."""
    return gather(tf.constant(value), name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Return the value of `root_rank` on every rank."""
    return cast(tf.constant(value), root_rank, name)


def reducescatter(value: Any, name: str | None = None, op: int = ops.Average) -> Any:
    """Combine a value over the ranks and return this rank's rows; see `paceline.horovod.tensorflow.reducescatter`."""
    return scatter(tf.constant(value), op=op, name=name)


def broadcast_global_variables(root_rank: int) -> Any:
    """Return an op that gives every rank the global variables of `root_rank`, for graphs of TensorFlow 1.

    Raises RuntimeError where TensorFlow executes eagerly, which has no global variables.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() does not support eager execution. Please use "
            "`hvd.broadcast_variables(<model/optimizer variables>)` instead."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


def load_model_of(keras: Any) -> Callable[..., Any]:
    """Return Horovod's `load_model` for this Keras."""

    def load_model(
        filepath: Any,
        custom_optimizers: Iterable[type] | None = None,
        custom_objects: Mapping[str, Any] | None = None,
        compression: type[Compressor] = Compression.none,
        legacy_opts: bool = False,
    ) -> Any:
        """Load a saved model, and make its optimizer, with its state, one that combines gradients over all ranks.

        custom_optimizers, custom_objects: classes that the file names and Keras does not know. `legacy_opts` is
        accepted and not needed. Raises what `keras.models.load_model` raises.
        """
        known = {**{kind.__name__: kind for kind in custom_optimizers or ()}, **(custom_objects or {})}
        model = keras.models.load_model(filepath, custom_objects=known)
        saved = getattr(model, "optimizer", None)
        if saved is not None:
            model.optimizer = keras_optimizer(saved, compression=compression)
            create_optimizer_variables(model.optimizer, model.trainable_variables)
            for own, before in zip(optimizer_variables(model.optimizer), optimizer_variables(saved), strict=True):
                own.assign(before)
        return model

    return load_model
