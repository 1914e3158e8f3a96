"""What trains a model on several ranks: Paceline's own faces, and torch's over Paceline."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from training_programs import Training


@dataclass
class Face:
    """A model that is trained. no_sync: the context of a pass after which nothing is exchanged."""

    forward: Callable[..., Tensor]
    optimizer: Any
    no_sync: Callable[[], Any]


def face(training: Training, model: nn.Module) -> Face:
    """Let the training's face have the model."""
    return _FACES[training.face](training, model)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, of which a rank may have a part. A collective of all ranks."""
    found: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return found


def _buckets(training: Training, model: nn.Module) -> Face:
    from paceline.torch import GradientBuckets

    buckets = GradientBuckets(model)
    return Face(model, training.made(model.parameters()), buckets.no_sync)


def _sharded(training: Training, model: nn.Module) -> Face:
    from paceline.torch import ShardedOptimizer

    kind: Any = getattr(torch.optim, training.optimizer)
    optimizer = ShardedOptimizer(model.parameters(), kind, **training.wishes)
    return Face(model, optimizer, optimizer.no_sync)


def _ddp(training: Training, model: nn.Module) -> Face:
    ddp = _hooked(training, DistributedDataParallel(model, **training.ddp_options))
    return Face(ddp, training.made(model.parameters()), ddp.no_sync)


def _zero(training: Training, model: nn.Module) -> Face:
    ddp = _hooked(training, DistributedDataParallel(model, **training.ddp_options))
    kind: Any = getattr(torch.optim, training.optimizer)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, **training.wishes)
    return Face(ddp, optimizer, ddp.no_sync)


def _fsdp(training: Training, model: nn.Module) -> Face:
    sharded: Any = fully_shard(model, mesh=init_device_mesh("cpu", (training.size,)))

    @contextlib.contextmanager
    def no_sync() -> Any:
        sharded.set_requires_gradient_sync(False)
        yield
        sharded.set_requires_gradient_sync(True)

    return Face(sharded, training.made(sharded.parameters()), no_sync)


def _hooked(training: Training, ddp: DistributedDataParallel) -> DistributedDataParallel:
    builtin = {"builtin": dist.BuiltinCommHookType.ALLREDUCE, "builtin float16": dist.BuiltinCommHookType.FP16_COMPRESS}
    hooks: dict[str, Any] = {
        "all_reduce": default_hooks.allreduce_hook,
        "float16": default_hooks.fp16_compress_hook,
    }
    if training.hook in builtin:
        ddp._register_builtin_comm_hook(builtin[training.hook])
    elif training.hook is not None:
        ddp.register_comm_hook(None, hooks[training.hook])
    return ddp


_FACES = {"buckets": _buckets, "sharded": _sharded, "ddp": _ddp, "zero": _zero, "fsdp": _fsdp}
