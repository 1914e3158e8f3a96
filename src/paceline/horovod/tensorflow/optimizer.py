"""DistributedOptimizer wraps an optimizer so that its gradients are combined over all ranks."""

from __future__ import annotations

from typing import Any

from paceline.horovod import ops
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.tensorflow.compression import Compression, Compressor
from paceline.horovod.tensorflow.gradient_tape import local_variables
from paceline.horovod.tensorflow.gradients import Gradients, Groups, chosen_groups
from paceline.horovod.tensorflow.keras_optimizer import distributed


def DistributedOptimizer(
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = ops.Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer of the same class and configuration that combines the gradients of all ranks.

    optimizer: one of Keras 2 or 3, or of tf.compat.v1.train. name: the beginning of the names by which gradients are
    matched. backward_passes_per_step: the number of backward passes over which gradients are accumulated before they
    are combined. average_aggregated_gradients: whether their sum is divided by that number. For the other arguments see
    `DistributedGradientTape`.

    Raises ValueError for arguments that make no sense, and for Adasum, which is there for `DistributedGradientTape`.
    """
    if op not in (ops.Average, ops.Sum):
        raise ValueError(
            "op currently only supports Average and Sum; DistributedGradientTape combines gradients with the others"
        )
    gradients = Gradients(
        name or f"Distributed{type(optimizer).__name__}",
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        chosen_groups(groups, num_groups),
        process_set,
        scale_local_gradients,
    )
    return distributed(optimizer, gradients, backward_passes_per_step, average_aggregated_gradients)


def keras_optimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = ops.Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer of the same class and configuration that combines the gradients of all ranks.

    The arguments are those of `paceline.horovod.tensorflow.DistributedOptimizer`, in the order of Horovod's Keras API.
    """
    return DistributedOptimizer(
        optimizer,
        name,
        False,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        average_aggregated_gradients,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )


def partial_keras_optimizer(
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: type[Compressor] = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = ops.Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """Return an optimizer as `keras_optimizer` does that leaves `local_layers`, one layer or several, out."""
    made = keras_optimizer(
        optimizer,
        name,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        0,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in local_variables(local_layers):
        made.register_local_var(variable)
    return made
