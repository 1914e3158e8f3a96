"""Broadcasts of variables, and exchanges of Python objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from paceline.horovod import objects
from paceline.horovod.plain_data import Blob, Kind
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.broadcast import broadcast_first_values


def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set, inplace: bool = False
) -> Any:
    """Give every rank the values of the variables of `root_rank`. All ranks pass as many, in the same order.

    In a graph this returns an op that assigns all of them. With PACELINE_COMPRESS=lossless, or auto where it pays, they
    are encoded between machines, bit for bit. `inplace` is accepted for Horovod's sake: a variable's value is received
    into new memory, which then becomes its own.
    """
    listed = list(variables)
    if not listed:
        return None
    assigned = broadcast_first_values(listed, root_rank, process_set)
    return None if tf.executing_eagerly() else tf.group(*assigned)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: object = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's object on every rank; the root gets its own object back.

    The object may hold plain data, NumPy arrays and tensors, see `plain_data.pack`. Nothing is unpickled: anything else
    raises TypeError on every rank. `session` is accepted and not needed.
    """
    return objects.broadcast_object(obj, root_rank, name, process_set, KINDS)


def broadcast_object_fn(
    root_rank: int = 0,
    session: object = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return a function that broadcasts an object, as `broadcast_object` does."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: object = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return every rank's object, in rank order; `broadcast_object` says what an object may hold.

    Raises TypeError on every rank if one rank's object cannot be sent.
    """
    return objects.allgather_object(obj, name, process_set, KINDS)


def _split(tensor: Any) -> tuple[Any, Blob]:
    memory: Blob = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8)
    return [tensor.dtype.name, list(tensor.shape)], memory


def _join(meta: Any, blob: Blob) -> Any:
    return tf.constant(blob.view(tf.dtypes.as_dtype(meta[0]).as_numpy_dtype).reshape(meta[1]))


KINDS = (Kind("tf.tensor", tf.__internal__.EagerTensor, _split, _join),)
"""The serialisation of TensorFlow's types; see `plain_data.Kind`."""
