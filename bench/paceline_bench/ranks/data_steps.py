"""The parts of a training step in which approaches differ: what a device does about parameters and gradients."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

RATE = 0.01
"""The learning rate."""


class Step(Protocol):
    """One step on a device, in this order."""

    module: nn.Module

    def broadcast(self) -> None:
        """Get the parameters."""

    def backward(self, inputs: Tensor, targets: Tensor) -> None:
        """Compute gradients."""

    def reduce(self) -> None:
        """Exchange gradients; rank 0 has the mean of all devices' afterwards."""

    def update(self) -> None:
        """Make a step of SGD."""


class MasterStep:
    """The baseline of ScaleDNN's section II: a master has the parameters and makes the update.

    devices: Paceline's group of the devices, whose rank 0 is the master. codec: encodes the parameters on their way to
    the others (section IV-C), or None. The master keeps the exact ones, and computes with what the others decode.
    """

    def __init__(self, module: nn.Module, devices: Any, codec: str | None) -> None:
        self.module, self._devices, self._codec = module, devices, codec
        parameters = list(module.parameters())
        self._parameters = torch.cat([one.detach().flatten() for one in parameters])
        self._gradients = torch.zeros_like(self._parameters)
        self._exact = self._parameters if codec is None else self._parameters.clone()
        begin = 0
        for one in parameters:
            part = slice(begin, begin + one.numel())
            one.data = self._parameters[part].view_as(one)
            one.grad = self._gradients[part].view_as(one)
            begin = part.stop

    def broadcast(self) -> None:
        """Send the master's parameters to all."""
        if self._codec is not None and self._devices.rank == 0:
            self._parameters.copy_(self._exact)
        self._devices.broadcast(self._parameters, 0, codec=self._codec)

    def backward(self, inputs: Tensor, targets: Tensor) -> None:
        """Compute gradients."""
        self._gradients.zero_()
        cross_entropy(self.module(inputs), targets).backward()  # type: ignore[no-untyped-call]

    def reduce(self) -> None:
        """Make the master's gradients the mean."""
        self._devices.reduce(self._gradients, 0, "avg")

    def update(self) -> None:
        """Update the master's parameters."""
        if self._devices.rank == 0:
            self._exact.add_(self._gradients, alpha=-RATE)


class GlooStep:
    """DDP over Gloo, which exchanges gradients while it computes. devices: Gloo's group of the devices."""

    def __init__(self, module: nn.Module, devices: dist.ProcessGroup) -> None:
        self.module = module
        self._model = DistributedDataParallel(module, process_group=devices)
        self._optimizer = torch.optim.SGD(module.parameters(), RATE)

    def broadcast(self) -> None:
        """Every device has the parameters."""

    def backward(self, inputs: Tensor, targets: Tensor) -> None:
        """Compute gradients and exchange them."""
        self._optimizer.zero_grad()
        cross_entropy(self._model(inputs), targets).backward()  # type: ignore[no-untyped-call]

    def reduce(self) -> None:
        """The backward pass did it."""

    def update(self) -> None:
        """Update the parameters on every device."""
        self._optimizer.step()


class HorovodStep:
    """Horovod's API over Paceline, with gradients as float16. devices: the process set of the devices."""

    def __init__(self, module: nn.Module, devices: Any) -> None:
        hvd = importlib.import_module("paceline.horovod.torch")
        self.module = module
        self._optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(module.parameters(), RATE),
            module.named_parameters(),
            compression=hvd.Compression.fp16,
            process_set=devices,
        )

    def broadcast(self) -> None:
        """Every device has the parameters."""

    def backward(self, inputs: Tensor, targets: Tensor) -> None:
        """Compute gradients, each of which is submitted at once."""
        self._optimizer.zero_grad()
        cross_entropy(self.module(inputs), targets).backward()  # type: ignore[no-untyped-call]

    def reduce(self) -> None:
        """Wait for the gradients."""
        self._optimizer.synchronize()

    def update(self) -> None:
        """Update the parameters on every device."""
        with self._optimizer.skip_synchronize():
            self._optimizer.step()
