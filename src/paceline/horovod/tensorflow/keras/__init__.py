"""Horovod's tf.keras API over Paceline: `import paceline.horovod.tensorflow.keras as hvd`.

See docs/how-to/tensorflow.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from paceline.horovod.basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from paceline.horovod.ops import Adasum, Average, Max, Min, Product, Sum
from paceline.horovod.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from paceline.horovod.tensorflow.compression import Compression, Compressor
from paceline.horovod.tensorflow.functions import allgather_object, broadcast_object, broadcast_variables
from paceline.horovod.tensorflow.keras import callbacks, elastic
from paceline.horovod.tensorflow.keras_functions import (
    allgather,
    allreduce,
    broadcast,
    broadcast_global_variables,
    load,
    reducescatter,
)
from paceline.horovod.tensorflow.optimizer import keras_optimizer as DistributedOptimizer
from paceline.horovod.tensorflow.optimizer import partial_keras_optimizer as PartialDistributedOptimizer

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def load_model(
    filepath: Any,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: type[Compressor] = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Load a saved model, and make its optimizer, with its state, one that combines gradients over all ranks.

    custom_optimizers, custom_objects: classes that the file names and Keras does not know. `legacy_opts` is accepted
    and not needed. Raises what `keras.models.load_model` raises.
    """
    return load(tf.keras, filepath, custom_optimizers, custom_objects, compression)
