"""Horovod's PyTorch API over Paceline: `import paceline.horovod.torch as hvd`. See docs/reference/horovod.md."""

from __future__ import annotations

from paceline.torch.installed import require_torch

require_torch("paceline.horovod.torch")

from paceline.horovod.torch import elastic, mpi_ops
from paceline.horovod.torch.compression import Compression
from paceline.horovod.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from paceline.horovod.torch.mpi_ops import *  # noqa: F403
from paceline.horovod.torch.optimizer import DistributedOptimizer
from paceline.horovod.torch.sync_batch_norm import SyncBatchNorm
from paceline.torch.compat import require_supported_torch
from paceline.torch.optimizers import follow_optimizers

require_supported_torch()
follow_optimizers()

__all__ = [
    "Compression",
    "DistributedOptimizer",
    "SyncBatchNorm",
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "elastic",
]
__all__ += mpi_ops.__all__
