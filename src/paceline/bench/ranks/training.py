"""A rank that trains ResNet-18 on random images, alone or through DDP, a few steps at a time."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from .models.resnet import Residual, resnet
from .silent import SilentProcessGroup
from .wire import Message

_CLASSES = 1000
_SEED = 1


def _alone(module: nn.Module) -> nn.Module:
    return module


def _silent(module: nn.Module) -> nn.Module:
    group = SilentProcessGroup(dist.get_rank(), dist.get_world_size())
    return DistributedDataParallel(module, process_group=group)


def _gloo(module: nn.Module) -> nn.Module:
    return DistributedDataParallel(module)


def _paceline(module: nn.Module) -> nn.Module:
    importlib.import_module("paceline.torch")
    return DistributedDataParallel(module, process_group=dist.new_group(backend="paceline"))


def _arena_hook(module: nn.Module) -> nn.Module:
    paceline = importlib.import_module("paceline.torch")
    group = dist.new_group(backend="paceline")
    model = DistributedDataParallel(module, process_group=group, gradient_as_bucket_view=True)
    model.register_comm_hook(group, paceline.arena_hook)
    return model


def _gradient_buckets(module: nn.Module) -> nn.Module:
    paceline = importlib.import_module("paceline.torch")
    paceline.GradientBuckets(module, dist.new_group(backend="paceline"))
    return module


def _sharded(module: nn.Module, group: dist.ProcessGroup) -> nn.Module:
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in module:  # type: ignore[attr-defined]
        if isinstance(block, Residual):
            fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return module


def _fsdp_gloo(module: nn.Module) -> nn.Module:
    return _sharded(module, dist.new_group(backend="gloo"))


def _fsdp_paceline(module: nn.Module) -> nn.Module:
    importlib.import_module("paceline.torch")
    return _sharded(module, dist.new_group(backend="paceline"))


METHODS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "alone": _alone,
    "silent": _silent,
    "gloo": _gloo,
    "paceline": _paceline,
    "arena_hook": _arena_hook,
    "gradient_buckets": _gradient_buckets,
    "fsdp_gloo": _fsdp_gloo,
    "fsdp_paceline": _fsdp_paceline,
}
"""For each method the function that returns the module to train. A new method needs a line here and in
ddp/measure.py.
"""


def network() -> nn.Module:
    """Return a new ResNet-18, the same each time."""
    torch.manual_seed(_SEED)
    return resnet(18, _CLASSES)


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class Training:
    """One training method. The default process group is always Gloo's, so that the ranks start each burst together."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._method = options["method"]
        self.about = f"{self._method} with torch {torch.__version__}"
        self._module = METHODS[self._method](network())
        self._parameters = list(self._module.parameters())
        fused = not isinstance(self._parameters[0], DTensor)  # torch has no fused SGD for sharded parameters
        self._optimizer = torch.optim.SGD(self._parameters, 0.01, momentum=0.9, fused=fused)
        random = torch.Generator().manual_seed(100 + self.rank)
        batch, pixels = int(options["batch"]), int(options["pixels"])
        self._images = torch.randn(batch, 3, pixels, pixels, generator=random)
        self._labels = torch.randint(_CLASSES, (batch,), generator=random)

    def do_check(self) -> Message:
        """Return the number of parameters whose gradient is wrong, and the bytes of all gradients.

        A gradient is right if it is the mean over the ranks or, if nothing is exchanged, this rank's share of it.
        """
        local = self._gradients(network())
        if self._method not in ("alone", "silent"):
            dist.all_reduce(local)
        if self._method != "alone":
            local /= self.size
        found = self._gradients(self._module)
        wrong, begin = 0, 0
        for parameter in self._parameters:
            part = slice(begin, begin + parameter.numel())
            scale = float(local[part].abs().max()) + 1e-12
            wrong += float((found[part] - local[part]).abs().max()) > 1e-3 * scale
            begin = part.stop
        return {"wrong": wrong, "bytes": 4 * begin}

    def do_train(self, steps: int) -> Message:
        """Make one untimed step and `steps` timed ones; return wall and CPU seconds of this process."""
        self._step()
        dist.barrier()
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            self._step()
        return {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()

    def _step(self) -> None:
        self._optimizer.zero_grad()
        self._backward(self._module)
        self._optimizer.step()

    def _gradients(self, module: nn.Module) -> Tensor:
        module.zero_grad()
        self._backward(module)
        return torch.cat([_whole(p.grad).flatten() for p in module.parameters() if p.grad is not None])

    def _backward(self, module: nn.Module) -> None:
        cross_entropy(module(self._images), self._labels).backward()  # type: ignore[no-untyped-call]
