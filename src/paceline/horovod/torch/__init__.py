"""Horovod's PyTorch API over Paceline: `import paceline.horovod.torch as hvd`. See docs/horovod.md."""

from __future__ import annotations

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
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.ops import Adasum, Average, Max, Min, Product, Sum
from paceline.horovod.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from paceline.horovod.torch import elastic
from paceline.horovod.torch.allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from paceline.horovod.torch.allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    sparse_allreduce_async,
)
from paceline.horovod.torch.alltoall import alltoall, alltoall_async
from paceline.horovod.torch.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from paceline.horovod.torch.compression import Compression
from paceline.horovod.torch.objects import allgather_object, broadcast_object
from paceline.horovod.torch.optimizer import DistributedOptimizer
from paceline.horovod.torch.parameters import broadcast_optimizer_state, broadcast_parameters
from paceline.horovod.torch.reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from paceline.horovod.torch.sync_batch_norm import SyncBatchNorm
from paceline.horovod.torch.waiting import barrier, join, poll, synchronize
from paceline.torch.compat import require_supported_torch

require_supported_torch()

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
