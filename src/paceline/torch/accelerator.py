"""Who serves CUDA tensors: the engine, or an inner NCCL group, which is made when the first one comes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from paceline import _engine
from paceline.runtime.runtime import Runtime
from paceline.settings.limits import Limits
from paceline.torch.opaque import opaque


@opaque
class Accelerator:
    """Finds who serves devices: a Python process group stands for all of them."""

    _store: dist.Store
    _rank: int
    _size: int
    _limits: Limits
    _home: Runtime
    _group: _engine.Group
    _inner: dist.ProcessGroup | None = None
    _device: _engine.DeviceGroup | None = None

    def _elsewhere(self, device: torch.device) -> bool:
        """Whether the engine does not move tensors of this device, which is not the CPU."""
        return device.type != "cuda" or not by_engine(self._home.settings.cuda)

    def _on_device(self, tensors: Sequence[Tensor]) -> _engine.DeviceGroup:
        """The group on the device that has these tensors, which may be empty. Collective for the first time."""
        if self._device is None:
            address = next((tensor.data_ptr() for tensor in tensors if tensor.numel()), 0)
            ordinal = tensors[0].device.index or 0
            self._device = _engine.DeviceGroup(self._home.devices, self._group, address, ordinal)
        return self._device

    def _on_accelerator(self, operation: str, tensor: Tensor, *arguments: object) -> dist.Work:
        return self._hand_over(operation, tensor.device, *arguments)

    def _hand_over(self, operation: str, device: torch.device, *arguments: object) -> dist.Work:
        work: dist.Work = getattr(self._accelerator_group(device), operation)(*arguments)
        return work

    def _accelerator_group(self, device: torch.device) -> dist.ProcessGroup:
        if self._inner is None:
            if device.type != "cuda" or not torch.cuda.is_available():
                raise RuntimeError(
                    "paceline moves CPU tensors and hands CUDA tensors to NCCL; "
                    f"it cannot move a {device.type} tensor here"
                )
            self._inner = _nccl_group(self._store, self._rank, self._size, self._limits.operation)
        return self._inner


def by_engine(wish: str) -> bool:
    """Whether the engine serves CUDA tensors. wish: PACELINE_CUDA.

    `auto` means NCCL where torch has it: which of the two is faster has not been measured.
    """
    return wish == "engine" or (wish == "auto" and not dist.is_nccl_available())


def _nccl_group(store: dist.Store, rank: int, size: int, timeout: float) -> dist.ProcessGroup:
    if not dist.is_nccl_available():
        raise RuntimeError("paceline hands CUDA tensors to NCCL, which this build of torch lacks")
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=timeout)
    nccl_store = dist.PrefixStore("cuda/", store)
    group = dist.ProcessGroup(nccl_store, rank, size)
    group._set_default_backend(dist.ProcessGroup.BackendType.NCCL)
    backend = dist.ProcessGroupNCCL(nccl_store, rank, size, options)
    group._register_backend(torch.device("cuda"), dist.ProcessGroup.BackendType.NCCL, backend)
    return group
