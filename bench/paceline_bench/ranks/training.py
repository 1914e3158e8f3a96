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
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Optimizer

from .models.resnet import Residual, resnet
from .silent import SilentProcessGroup
from .wire import Message

_CLASSES = 1000
_SEED = 1
_RATE, _MOMENTUM = 0.01, 0.9
_TOLERANCE, _ENCODED_TOLERANCE = 1e-3, 0.05
"""The largest error that a gradient may have, as a share of the largest of its parameter; where it is encoded, of the
largest of the parameters around, because a codec's groups span several small ones."""
_AROUND = 2
"""Parameters on either side of one with which a group of 128 elements may be shared."""

Trained = tuple[nn.Module, Optimizer]


def _sgd(module: nn.Module, fused: bool = True) -> Trained:
    return module, SGD(module.parameters(), _RATE, momentum=_MOMENTUM, fused=fused)


def _zero(module: nn.Module, group: dist.ProcessGroup) -> Trained:
    model = DistributedDataParallel(module, process_group=group)
    return model, ZeroRedundancyOptimizer(
        model.parameters(), SGD, group, parameters_as_bucket_view=True, lr=_RATE, momentum=_MOMENTUM, fused=True
    )


def _paceline_group() -> dist.ProcessGroup:
    importlib.import_module("paceline.torch")
    group: dist.ProcessGroup = dist.new_group(backend="paceline")
    return group


def _alone(module: nn.Module) -> Trained:
    return _sgd(module)


def _silent(module: nn.Module) -> Trained:
    group = SilentProcessGroup(dist.get_rank(), dist.get_world_size())
    return _sgd(DistributedDataParallel(module, process_group=group))


def _gloo(module: nn.Module) -> Trained:
    return _sgd(DistributedDataParallel(module))


def _paceline(module: nn.Module) -> Trained:
    return _sgd(DistributedDataParallel(module, process_group=_paceline_group()))


def _arena_hook(module: nn.Module) -> Trained:
    paceline = importlib.import_module("paceline.torch")
    group = _paceline_group()
    model = DistributedDataParallel(module, process_group=group, gradient_as_bucket_view=True)
    model.register_comm_hook(group, paceline.arena_hook)
    return _sgd(model)


def _compress_int8(module: nn.Module) -> Trained:
    paceline = importlib.import_module("paceline.torch")
    model = DistributedDataParallel(module, process_group=_paceline_group())
    paceline.compress(model, "int8")
    return _sgd(model)


def _gradient_buckets(module: nn.Module) -> Trained:
    paceline = importlib.import_module("paceline.torch")
    paceline.GradientBuckets(module, _paceline_group())
    return _sgd(module)


def _zero_gloo(module: nn.Module) -> Trained:
    return _zero(module, dist.new_group(backend="gloo"))


def _zero_paceline(module: nn.Module) -> Trained:
    return _zero(module, _paceline_group())


def _sharded_optimizer(module: nn.Module) -> Trained:
    paceline = importlib.import_module("paceline.torch")
    group, options = _paceline_group(), {"lr": _RATE, "momentum": _MOMENTUM, "fused": True}
    return module, paceline.ShardedOptimizer(module.parameters(), SGD, group, **options)


def _fsdp(module: nn.Module, group: dist.ProcessGroup) -> Trained:
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in module:  # type: ignore[attr-defined]
        if isinstance(block, Residual):
            fully_shard(block, mesh=mesh)
    fully_shard(module, mesh=mesh)
    return _sgd(module, fused=False)  # torch has no fused SGD for sharded parameters


def _fsdp_gloo(module: nn.Module) -> Trained:
    return _fsdp(module, dist.new_group(backend="gloo"))


def _fsdp_paceline(module: nn.Module) -> Trained:
    return _fsdp(module, _paceline_group())


METHODS: dict[str, Callable[[nn.Module], Trained]] = {
    "alone": _alone,
    "silent": _silent,
    "gloo": _gloo,
    "paceline": _paceline,
    "arena_hook": _arena_hook,
    "compress_int8": _compress_int8,
    "gradient_buckets": _gradient_buckets,
    "zero_gloo": _zero_gloo,
    "zero_paceline": _zero_paceline,
    "sharded_optimizer": _sharded_optimizer,
    "fsdp_gloo": _fsdp_gloo,
    "fsdp_paceline": _fsdp_paceline,
}
"""For each method the function that returns the module to train and its optimizer.

A new method needs a line here and in ddp/measure.py.
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
        self._module, self._optimizer = METHODS[self._method](network())
        self._parameters = list(self._module.parameters())
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
        found = self._subtracted() if self._method == "sharded_optimizer" else self._gradients(self._module)
        sizes = [parameter.numel() for parameter in self._parameters]
        errors = [float(part.abs().max()) for part in torch.split(found - local, sizes)]
        largest = [float(part.abs().max()) for part in torch.split(local, sizes)]
        tolerance = _TOLERANCE
        if self._method == "compress_int8":
            tolerance = _ENCODED_TOLERANCE
            largest = [max(largest[max(0, at - _AROUND) : at + _AROUND + 1]) for at in range(len(largest))]
        wrong = sum(error > tolerance * (scale + 1e-12) for error, scale in zip(errors, largest, strict=True))
        return {"wrong": wrong, "bytes": 4 * sum(sizes)}

    def do_train(self, steps: int) -> Message:
        """Make one untimed step and `steps` timed ones; return this rank's wall and CPU seconds, and bytes of state."""
        self._step()
        dist.barrier()
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            self._step()
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
        return {"seconds": seconds, "cpu_seconds": cpu_seconds, "state_bytes": self._state_bytes()}

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()

    def _step(self) -> None:
        self._optimizer.zero_grad()
        self._backward(self._module)
        self._optimizer.step()

    def _subtracted(self) -> Tensor:
        """Return the change of the parameters in a first step of rate 1: gradients that are whole nowhere."""
        before = [parameter.detach().clone() for parameter in self._parameters]
        (group,) = self._optimizer.param_groups
        group["lr"] = 1.0
        self._step()
        group["lr"] = _RATE
        pairs = list(zip(before, self._parameters, strict=True))
        found = torch.cat([(old - new.detach()).flatten() for old, new in pairs])
        with torch.no_grad():
            for old, new in pairs:
                new.copy_(old)
        return found

    def _state_bytes(self) -> int:
        optimizer = getattr(self._optimizer, "local", getattr(self._optimizer, "optim", self._optimizer))
        tensors = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
        return sum((tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes for tensor in tensors)

    def _gradients(self, module: nn.Module) -> Tensor:
        module.zero_grad()
        self._backward(module)
        return torch.cat([_whole(p.grad).flatten() for p in module.parameters() if p.grad is not None])

    def _backward(self, module: nn.Module) -> None:
        cross_entropy(module(self._images), self._labels).backward()  # type: ignore[no-untyped-call]
