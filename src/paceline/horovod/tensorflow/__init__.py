"""Horovod's TensorFlow API, `import paceline.horovod.tensorflow as hvd`; see docs/frameworks/tensorflow.md.

Raises a one-line ImportError where TensorFlow is not installed, and for a version that is not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.horovod.tensorflow.compat import require_tensorflow

require_tensorflow()

from paceline.horovod.common.util import gpu_available
from paceline.horovod.tensorflow import elastic, mpi_ops
from paceline.horovod.tensorflow.allreduce import allreduce, grouped_allreduce
from paceline.horovod.tensorflow.compression import Compression
from paceline.horovod.tensorflow.functions import (
    allgather_object,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from paceline.horovod.tensorflow.gradient_tape import (
    DistributedGradientTape,
    PartialDistributedGradientTape,
)
from paceline.horovod.tensorflow.keras_functions import broadcast_global_variables
from paceline.horovod.tensorflow.mpi_ops import *  # noqa: F403
from paceline.horovod.tensorflow.optimizer import DistributedOptimizer
from paceline.horovod.tensorflow.reducescatter import grouped_reducescatter, reducescatter
from paceline.horovod.tensorflow.session_hook import BroadcastGlobalVariablesHook
from paceline.horovod.tensorflow.util import _cache, _executing_eagerly, _make_subgraph, refs_to_vars, vars_to_refs

if TYPE_CHECKING:
    from paceline.horovod.tensorflow.sync_batch_norm import SyncBatchNormalization

__all__ = [
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "PartialDistributedGradientTape",
    "SyncBatchNormalization",
    "_cache",
    "_executing_eagerly",
    "_make_subgraph",
    "allgather_object",
    "allreduce",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "elastic",
    "gpu_available",
    "grouped_allreduce",
    "grouped_reducescatter",
    "reducescatter",
    "refs_to_vars",
    "vars_to_refs",
]
__all__ += [name for name in mpi_ops.__all__ if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    """Import what needs Keras, which takes seconds, when it is asked for."""
    if name == "SyncBatchNormalization":
        from paceline.horovod.tensorflow.sync_batch_norm import SyncBatchNormalization

        return SyncBatchNormalization
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
