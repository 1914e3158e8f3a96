"""The server of CUDA tensors: an inner NCCL group, which is made when the first one comes, or the engine.

With PACELINE_CUDA=auto ranks time both in the first collective of CUDA tensors, and keep NCCL where it is not clearly
slower.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from paceline import _engine
from paceline.calibration.torch import CONTEST_SIZES
from paceline.errors import Aborted
from paceline.runtime.runtime import Runtime
from paceline.settings.limits import Limits
from paceline.torch import cuda
from paceline.torch.contest import Verdict, contest, everything, nothing
from paceline.torch.futures import callbacks
from paceline.torch.opaque import opaque
from paceline.torch.tables import DTYPES

_log = logging.getLogger("paceline")


@opaque
class Accelerator:
    """Finds who serves devices: a Python process group stands for all of them."""

    _store: dist.Store
    _rank: int
    _size: int
    _limits: Limits
    _runtime: Runtime
    _group: _engine.Group
    _inner: dist.ProcessGroup | None = None
    _device: _engine.DeviceGroup | None = None
    _verdict: Verdict | None = None
    _shared = False
    """True if two ranks or more have the same device, so far as is known."""

    def _twin(self, purpose: str) -> _engine.Group:
        """Another group of the same ranks, the same one for each purpose."""
        raise NotImplementedError

    def _elsewhere(self, device: torch.device, even: Tensor | None = None) -> bool:
        """Return whether the engine does not serve a collective of tensors of this device, which is not the CPU.

        even: one of its tensors that has the same shape and dtype on all ranks, if there is one. Collective for the
        first time, where both the engine and NCCL could serve it.
        """
        settled = self._settled(device)
        if settled is not None:
            return settled
        special = callbacks.depth > 0 or cuda.captures()
        if self._verdict is None and not special:
            self._verdict = self._compare(device)
            if self._rank == 0:
                _log.info("who serves CUDA tensors, the engine or NCCL: %s", self._verdict.reason)
        if self._verdict is None or special or even is None or not _plain(even):
            return not self._shared
        return not self._verdict.for_challenger(even.nbytes)

    def _message_elsewhere(self, device: torch.device) -> bool:
        """Return whether the engine does not move messages of tensors of this device, which is not the CPU."""
        settled = self._settled(device)
        return settled if settled is not None else not self._shared

    def _settled(self, device: torch.device) -> bool | None:
        """Return whether the engine does not serve this device, whatever is called; None if it depends on that."""
        wish = self._runtime.settings.cuda
        if device.type != "cuda" or wish == "nccl":
            return True
        return None if wish == "auto" and dist.is_nccl_available() else False

    def _compare(self, device: torch.device) -> Verdict:
        if self._size == 1:
            return nothing("there is one rank")
        try:
            # If this fails, the group itself goes on.
            group = self._twin("devices")
            self._device = _engine.DeviceGroup(self._runtime.devices, group, 0, device.index or 0)
            self._shared = self._device.share_device
            if self._shared:
                return everything("ranks share a device, which NCCL refuses")
            return self._timed(self._device, group, device)
        except Aborted as error:
            return nothing(str(error))

    def _timed(self, engine: _engine.DeviceGroup, group: _engine.Group, device: torch.device) -> Verdict:
        nccl = self._accelerator_group(device)

        def by_engine(size: int) -> float:
            begin = time.perf_counter()
            stream = cuda.stream(device)
            engine.start(_all_reduce(zeros, size // 4, "SUM"), stream).order_before(stream)
            cuda.finish(device)
            return time.perf_counter() - begin

        def by_nccl(size: int) -> float:
            begin = time.perf_counter()
            nccl.allreduce([zeros[: size // 4]]).wait()
            cuda.finish(device)
            return time.perf_counter() - begin

        def slowest(times: list[float]) -> list[float]:
            values = torch.tensor(times, dtype=torch.float64)
            group.start(_all_reduce(values, len(times), "MAX"), _engine.BLOCKING)
            found: list[float] = values.tolist()
            return found

        with cuda.aside(device):
            lacking = 0.0
            try:
                zeros = cuda.zeros(CONTEST_SIZES[-1] // 4, device)
            except torch.OutOfMemoryError:
                lacking = 1.0
            if slowest([lacking])[0]:
                return nothing(f"a rank's device has no room for {CONTEST_SIZES[-1] >> 20} MiB, to time both")
            return contest(by_engine, by_nccl, slowest)

    def _on_device(self, tensors: Sequence[Tensor]) -> _engine.DeviceGroup:
        """The group on the device that has these tensors, which may be empty. Collective for the first time."""
        if self._device is None:
            address = next((tensor.data_ptr() for tensor in tensors if tensor.numel()), 0)
            ordinal = tensors[0].device.index or 0
            self._device = _engine.DeviceGroup(self._runtime.devices, self._group, address, ordinal)
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


def _plain(tensor: Tensor) -> bool:
    """Return whether the engine can use the tensor on its device, as it is."""
    return tensor.layout == torch.strided and tensor.dtype in DTYPES and tensor.is_contiguous()


def _nccl_group(store: dist.Store, rank: int, size: int, timeout: float) -> dist.ProcessGroup:
    if not dist.is_nccl_available():
        raise RuntimeError(
            "paceline hands CUDA tensors to NCCL, which this build of torch lacks; with PACELINE_CUDA=engine on all "
            "ranks it serves them itself, which has not run on a GPU yet"
        )
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=timeout)
    nccl_store = dist.PrefixStore("cuda/", store)
    group = dist.ProcessGroup(nccl_store, rank, size)
    group._set_default_backend(dist.ProcessGroup.BackendType.NCCL)
    backend = dist.ProcessGroupNCCL(nccl_store, rank, size, options)
    group._register_backend(torch.device("cuda"), dist.ProcessGroup.BackendType.NCCL, backend)
    return group


def _all_reduce(values: Tensor, count: int, op: str) -> _engine.CollectiveCall:
    """An all-reduce of the first `count` elements, in place. op: a name in the engine's OPS."""
    dtype, number = DTYPES[values.dtype], _engine.OPS[op]
    return _engine.CollectiveCall("all_reduce", target=values.data_ptr(), count=count, dtype=dtype, op=number)
