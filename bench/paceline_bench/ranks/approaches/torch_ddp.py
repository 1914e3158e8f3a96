"""Training with torch's DistributedDataParallel, over a backend of torch.distributed or over MPI."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from ..models.mobile import mobilenet_v2
from ..models.resnet import resnet
from ..pattern import Array
from ..silent import SilentProcessGroup
from .steps import CLASSES, RATE, SEED, Steps


def network(model: str) -> nn.Module:
    """Return a new ResNet-50 or MobileNet (v2), the same each time, without dropout, which would differ by rank."""
    torch.manual_seed(SEED)
    made = resnet(50, CLASSES) if model == "ResNet-50" else mobilenet_v2(CLASSES)
    for layer in made.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return made


class TorchDdp(Steps):
    """DDP over torch's default process group, with the backend `options["backend"]`.

    "none" is Gloo that exchanges nothing in a step.
    """

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        self._backend = options["backend"]
        if self._backend == "paceline":
            importlib.import_module("paceline.torch")
        group = "gloo" if self._backend == "none" else self._backend
        dist.init_process_group(group, timeout=timedelta(seconds=timeout))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.about = f"DDP over {self._backend} with torch {torch.__version__}"

    def build(self, model: str, batch: int, pixels: int) -> None:
        """Make the model and this rank's images."""
        self._module = network(model)
        self._wrapped = self.distributed(self._module)
        self._optimizer = SGD(self._module.parameters(), RATE)
        random = torch.Generator().manual_seed(100 + self.rank)
        self._images = torch.randn(batch, 3, pixels, pixels, generator=random)
        self._labels = torch.randint(CLASSES, (batch,), generator=random)
        # The backward pass ends with the model's first layer. This hook runs before DDP's.
        first = next(self._module.parameters())
        first.register_post_accumulate_grad_hook(self._note)  # type: ignore[no-untyped-call]
        self._ready = 0.0

    def distributed(self, module: nn.Module) -> nn.Module:
        """Return the module as DDP trains it."""
        if self._backend == "none":
            return DistributedDataParallel(module, process_group=SilentProcessGroup(self.rank, self.size))
        return DistributedDataParallel(module)

    def weights(self) -> Sequence[Array]:
        """Return copies of the weights."""
        return [weight.detach().numpy().copy() for weight in self._module.parameters()]

    def gradients(self) -> Sequence[Array]:
        """Return this rank's own gradients."""
        self._module.zero_grad()
        self._backward(self._module)
        found = [weight.grad for weight in self._module.parameters()]
        return [gradient.numpy().copy() for gradient in found if gradient is not None]

    def step(self) -> float:
        """Make one step."""
        self._optimizer.zero_grad()
        self._backward(self._wrapped)
        self._optimizer.step()
        return self._ready

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()

    def _backward(self, module: nn.Module) -> None:
        cross_entropy(module(self._images), self._labels).backward()  # type: ignore[no-untyped-call]

    def _note(self, weight: torch.Tensor) -> None:
        self._ready = time.time()
