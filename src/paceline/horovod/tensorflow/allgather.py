"""allgather concatenates the ranks' tensors along their first dimension, in which they may differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from paceline.horovod import ops
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.naming import attributes
from paceline.horovod.tensorflow.process_set import number_of, set_of
from paceline.horovod.tensorflow.reduction import _allreduce


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return all ranks' rows in rank order. The gradient is the average of the ranks' gradients.

    The ranks' tensors have the same dtype and shape except for the first dimension. `allreduce` says how calls are
    matched and what they raise.
    """
    return _run(
        [tensor], attributes("HorovodAllgather", name, [_tensor(tensor)], ignore_name_scope), process_set, False
    )[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Gather several tensors of each rank; see `allgather`."""
    tensors = [_tensor(tensor) for tensor in tensors]
    return _run(tensors, attributes("HorovodGroupedAllgather", name, tensors, ignore_name_scope), process_set, True)


def _tensor(tensor: Any) -> Any:
    return tf.convert_to_tensor(tensor)


def _run(tensors: Sequence[Any], names: dict[str, Any], process_set: ProcessSet, grouped: bool) -> list[Any]:
    results: list[Any] = LIBRARY.ops.paceline_allgather(
        tensors, grouped=grouped, process_set_id=number_of(process_set), **names
    )
    return results


@tf.RegisterGradient("PacelineAllgather")
def _gradient(op: Any, *gradients: Any) -> Any:
    process_set = set_of(op.get_attr("process_set_id"))
    short = op.get_attr("ignore_name_scope")
    # One by one: TensorFlow gives float32 zeros for a result that nobody used, whatever its dtype.
    averages = [
        _allreduce(gradient, op=ops.Average, ignore_name_scope=short, process_set=process_set) for gradient in gradients
    ]
    rows = tf.stack([tf.shape(tensor)[0] for tensor in op.inputs])[tf.newaxis]
    everyone = allgather(rows, ignore_name_scope=short, process_set=process_set)
    me = process_set.rank() or 0
    starts, mine = tf.reduce_sum(everyone[:me], axis=0), everyone[me]
    return [average[starts[i] : starts[i] + mine[i]] for i, average in enumerate(averages)]
