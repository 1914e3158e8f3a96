"""The PyTorch face: `torch.distributed.init_process_group("paceline")`, and tensors that collectives need not copy.

Importing this package registers the backend. A program need not import it if Paceline is installed, because torch finds
the name by itself (entry points `torch.distributed.backends` and `torch.backends`).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paceline.torch.installed import require_torch

require_torch("paceline.torch")

from paceline.torch.registration import register

if TYPE_CHECKING:
    from paceline.torch.comm_hook import arena_hook
    from paceline.torch.compression import Compression, compress
    from paceline.torch.fully_sharded import FullyShardedCompression
    from paceline.torch.gradients import GradientBuckets
    from paceline.torch.memory import empty
    from paceline.torch.partitioned.build import hybrid
    from paceline.torch.partitioned.errors import HybridError
    from paceline.torch.partitioned.model import Hybrid
    from paceline.torch.sharded.optimizer import ShardedOptimizer

__all__ = [
    "Compression",
    "FullyShardedCompression",
    "GradientBuckets",
    "Hybrid",
    "HybridError",
    "ShardedOptimizer",
    "arena_hook",
    "compress",
    "empty",
    "hybrid",
    "register",
]

_HOMES = {
    "Compression": "compression",
    "FullyShardedCompression": "fully_sharded",
    "GradientBuckets": "gradients",
    "Hybrid": "partitioned.model",
    "HybridError": "partitioned.errors",
    "ShardedOptimizer": "sharded.optimizer",
    "arena_hook": "comm_hook",
    "compress": "compression",
    "empty": "memory",
    "hybrid": "partitioned.build",
}


def __getattr__(name: str) -> object:
    # They are imported when they are asked for, because torch imports this package while it is being imported itself.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


register()
