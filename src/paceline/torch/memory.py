"""Tensors in memory that the other ranks of this machine see, so that collectives on them need no copy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.process.current import runtime


def empty(*size: int | Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """An uninitialised CPU tensor in this process's arena; its memory is given back with the last reference to it.

    Sizes and the default of `dtype` are those of `torch.empty`. An `all_reduce` whose tensor, or a contiguous view of
    it, lies in an arena on every rank combines it in place, without a copy. May be called before
    `init_process_group`. Raises MemoryError if the machine's memory is too small.
    """
    kind = torch.get_default_dtype() if dtype is None else dtype
    shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)  # type: ignore[arg-type]
    memory = runtime().allocate(max(1, shape.numel()) * kind.itemsize)
    storage = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=kind).set_(storage, 0, shape)  # type: ignore[call-overload,no-any-return]
