"""broadcast gives one rank's tensor to all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from paceline.horovod import job, ops
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.kernels.library import LIBRARY
from paceline.horovod.tensorflow.naming import attributes
from paceline.horovod.tensorflow.process_set import number_of, set_of
from paceline.horovod.tensorflow.reduction import _allreduce


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the tensor of `root_rank`, a rank of the job, on every rank.

    All ranks pass a tensor of the same shape and dtype. The root's gradient is the average of all ranks'; others get
    zeros. Raises tf.errors.InvalidArgumentError if the root is not in the process set; see `allreduce` for the rest.
    """
    tensor = tf.convert_to_tensor(tensor)
    return _run([tensor], root_rank, attributes("HorovodBroadcast", name, [tensor], ignore_name_scope), process_set)[0]


def broadcast_(
    variables: Sequence[Any], root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Give every rank the variables of `root_rank`, and return their values."""
    return _assign(variables, root_rank, name, process_set, parameters=False)


def broadcast_first_values(variables: Sequence[Any], root_rank: int, process_set: ProcessSet) -> list[Any]:
    """As `broadcast_`, of the values with which training begins or goes on.

    With PACELINE_COMPRESS=lossless, or auto where it pays, they are encoded between machines, bit for bit.
    """
    return _assign(variables, root_rank, None, process_set, parameters=True)


def _assign(
    variables: Sequence[Any], root: int, name: str | None, process_set: ProcessSet, parameters: bool
) -> list[Any]:
    values = [tf.convert_to_tensor(variable) for variable in variables]
    received = _run(values, root, attributes("HorovodBroadcast", name, values), process_set, parameters)
    return [variable.assign(value) for variable, value in zip(variables, received, strict=True)]


def _run(
    tensors: Sequence[Any], root: int, names: dict[str, Any], process_set: ProcessSet, parameters: bool = False
) -> list[Any]:
    if len(tensors) > 1 and names["names"]:
        names["names"] = [f"{names['names'][0]}_{number}of{len(tensors)}" for number in range(1, len(tensors) + 1)]
    results: list[Any] = LIBRARY.ops.paceline_broadcast(
        tensors, process_set_id=number_of(process_set), root_rank=root, parameters=parameters, **names
    )
    return results


@tf.RegisterGradient("PacelineBroadcast")
def _gradient(op: Any, *gradients: Any) -> Any:
    process_set = set_of(op.get_attr("process_set_id"))
    averages = [
        _allreduce(
            gradient, op=ops.Average, ignore_name_scope=op.get_attr("ignore_name_scope"), process_set=process_set
        )
        for gradient in gradients
    ]
    if job.current().rank == op.get_attr("root_rank"):
        return averages
    with tf.control_dependencies(averages):  # the others wait for this rank's gradient, which nothing here uses
        return [tf.zeros_like(gradient) for gradient in gradients]
