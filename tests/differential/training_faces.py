"""What trains a model on several ranks: Paceline's own faces, and torch's over Paceline."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from training_programs import Training


@dataclass
class Face:
    """A model that is trained. no_sync: the context of a pass after which nothing is exchanged. all: of the training.

    complete: waits for the gradients of a pass.
    """

    forward: Callable[..., Tensor]
    optimizer: Any
    no_sync: Callable[[], Any] = contextlib.nullcontext
    all: Callable[[], Any] = contextlib.nullcontext
    complete: Callable[[], Any] = lambda: None


def face(training: Training, model: nn.Module) -> Face:
    """Let the training's face have the model."""
    return _FACES[training.face](training, model)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, of which a rank may have a part. A collective of all ranks."""
    found: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return found


def _buckets(training: Training, model: nn.Module) -> Face:
    from paceline.torch import GradientBuckets

    buckets = GradientBuckets(model, codec=training.codec)
    return Face(model, training.made(model.parameters()), buckets.no_sync)


def _sharded(training: Training, model: nn.Module) -> Face:
    from paceline.torch import ShardedOptimizer

    optimizer = ShardedOptimizer(
        model.parameters(), training.optimizer_class, gradient_codec=training.codec, **training.wishes
    )
    return Face(model, optimizer, optimizer.no_sync)


def _ddp(training: Training, model: nn.Module) -> Face:
    ddp = _hooked(training, DistributedDataParallel(model, **training.ddp_options))
    # Gradients are divided by the number of ranks that have not joined, which is that of all.
    joined = functools.partial(Join, [ddp], divide_by_initial_world_size=False)
    whole_training = joined if training.joins else contextlib.nullcontext
    return Face(ddp, training.made(model.parameters()), ddp.no_sync, whole_training)


def _zero(training: Training, model: nn.Module) -> Face:
    ddp = _hooked(training, DistributedDataParallel(model, **training.ddp_options))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), training.optimizer_class, **training.wishes)
    return Face(ddp, optimizer, ddp.no_sync)


def _fsdp(training: Training, model: nn.Module) -> Face:
    sharded: Any = fully_shard(model, mesh=init_device_mesh("cpu", (training.size,)))

    @contextlib.contextmanager
    def no_sync() -> Any:
        sharded.set_requires_gradient_sync(False)
        yield
        sharded.set_requires_gradient_sync(True)

    return Face(sharded, training.made(sharded.parameters()), no_sync)


def _horovod(training: Training, model: nn.Module) -> Face:
    import paceline.horovod.torch as hvd

    optimizer: Any = hvd.DistributedOptimizer(training.made(model.parameters()), model.named_parameters())
    return Face(model, optimizer, complete=optimizer.synchronize)


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


_FACES = {
    "buckets": _buckets,
    "sharded": _sharded,
    "ddp": _ddp,
    "zero": _zero,
    "fsdp": _fsdp,
    "horovod": _horovod,
}
