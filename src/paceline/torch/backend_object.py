"""The interface that torch expects of the object behind a device, which for torch's own groups is a backend in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from paceline.torch import memory
from paceline.torch.name import NAME
from paceline.torch.opaque import opaque


@opaque
class BackendObject:
    """Answers as Gloo's backend does, but that it has memory to give."""

    _store: dist.Store

    Options = c10d.Backend.Options
    supports_splitting = True
    supports_coalescing = supports_time_estimate = supports_shrinking = False
    supports_reconfigure = supports_window = False
    use_pg_for_symm_mem_rendezvous = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Return whether `allocate_tensor` serves this device: the CPU."""
        return torch.device(device).type == "cpu"

    def allocate_tensor(self, size: int, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
        """A tensor of so many elements in the arena, where collectives need no copy; elsewhere if that is full.

        Raises RuntimeError for a device other than the CPU.
        """
        if not self.supports_tensor_alloc(torch.device(device)):
            _refuse(f"allocate_tensor on {device}")
        try:
            return memory.empty(size, dtype=dtype)
        except MemoryError:
            return torch.empty(size, dtype=dtype)

    @property
    def mem_allocator(self) -> NoReturn:
        """No allocator of a device."""
        _refuse("mem_allocator, as it serves no memory of devices")

    def memory_stats(self) -> NoReturn:
        """Raise RuntimeError, as Gloo does."""
        _refuse("memory_stats, as it keeps no memory of devices")

    def suspend(self) -> NoReturn:
        """Raise RuntimeError, as Gloo does."""
        _refuse("suspend, as it keeps no memory of devices")

    def resume(self) -> NoReturn:
        """Raise RuntimeError, as Gloo does."""
        _refuse("resume, as it cannot be suspended")

    def shrink(self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: object = None) -> NoReturn:
        """Raise RuntimeError, as Gloo does."""
        _refuse("shrink: make a group of the ranks that stay, by torch.distributed.new_group")

    def merge_remote_group(self, *_: object, **__: object) -> NoReturn:
        """Raise RuntimeError."""
        _refuse("merge_remote_group: start a process group of all ranks, by init_process_group")

    def setUsePgForSymmMemRendezvous(self, use: bool) -> None:
        """Note what `use_pg_for_symm_mem_rendezvous` says from now on."""
        self.use_pg_for_symm_mem_rendezvous = use

    def get_group_store(self) -> dist.Store:
        """The store through which the ranks have met."""
        return self._store

    def _has_hooks(self) -> bool:
        return False

    def _register_on_completion_hook(self, hook: object) -> NoReturn:
        _refuse("on-completion hooks, which only NCCL's does")

    def _wait_for_pending_works(self) -> NoReturn:
        _refuse("_wait_for_pending_works, which only NCCL's does")


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(f"Backend {NAME} does not support {what}")
