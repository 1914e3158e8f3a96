"""alltoall sends some rows of each rank's tensor to each other rank."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.naming import attributes
from paceline.horovod.tensorflow.process_set import number_of, set_of


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send the first `splits[0]` rows to rank 0, the next `splits[1]` rows to rank 1, and so on.

    Returns the rows received, in rank order, and, if `splits` is given, the number of rows from each rank, with the
    dtype of `splits`. Without splits all ranks get equal shares. The ranks' tensors have the same dtype and shape
    except for the first dimension. Gradients are sent back to the ranks that the rows came from.

    Splits that do not fit the tensor raise tf.errors.InvalidArgumentError; see `allreduce` for the rest.
    """
    tensor = tf.convert_to_tensor(tensor)
    counts = tf.constant([], tf.int32) if splits is None else tf.convert_to_tensor(splits)
    names = attributes("HorovodAlltoall", name, [tensor], ignore_name_scope)
    received, from_each = LIBRARY.ops.paceline_alltoall(tensor, counts, process_set_id=number_of(process_set), **names)
    return received if splits is None else (received, from_each)


@tf.RegisterGradient("PacelineAlltoall")
def _gradient(op: Any, gradient: Any, _: Any) -> Any:
    back, _ = alltoall(
        gradient,
        op.outputs[1],
        ignore_name_scope=op.get_attr("ignore_name_scope"),
        process_set=set_of(op.get_attr("process_set_id")),
    )
    rest = tf.shape(op.inputs[0])[:1] - tf.shape(back)[:1]  # rows that went to nobody
    left_out = tf.zeros(tf.concat([rest, tf.shape(back)[1:]], 0), back.dtype)
    return tf.ensure_shape(tf.concat([back, left_out], 0), op.inputs[0].shape), None
