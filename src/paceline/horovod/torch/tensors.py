"""Converts between tensors and the contiguous host memory that the coordinator takes; other tensors are copied."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline._engine import ArenaBuffer
from paceline.coordinate import Span
from paceline.torch.staging import code_of, is_plain, span
from paceline.torch.tables import DTYPES


def reducible(tensor: Tensor) -> None:
    """Raise ValueError unless the engine can reduce tensors of this dtype."""
    movable(tensor)
    if tensor.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(f"Tensor type {tensor.type()} is not supported; a reduction takes {names}")


def movable(tensor: Tensor) -> None:
    """Raise ValueError for a tensor that is not strided."""
    if tensor.layout is not torch.strided:
        raise ValueError(
            "sparse tensors are not supported here: hvd.sparse_allreduce_async takes them, or use tensor.to_dense()"
        )


def rows_of(tensor: Tensor, call: str) -> int:
    """Return the length of the first dimension, along which `call` splits and concatenates.

    Raises ValueError for a scalar.
    """
    movable(tensor)
    if tensor.dim() == 0:
        raise ValueError(f"{call} needs a tensor with a first dimension, not a scalar; tensor.reshape(1) has one")
    return tensor.shape[0]


def in_host(tensor: Tensor) -> Tensor:
    """Return the tensor itself if its memory can be used directly, else a contiguous copy in host memory."""
    plain = tensor.detach()
    if plain.is_cpu and is_plain(plain):
        return plain
    return copy_in_host(plain)


def rows_in_host(tensor: Tensor) -> Tensor:
    """Return what `in_host` returns; rows without elements get one element each, so that they can be counted."""
    return in_host(tensor) if tensor.shape[1:].numel() else torch.zeros(tensor.shape[0], dtype=tensor.dtype)


def copy_in_host(tensor: Tensor) -> Tensor:
    """Return a contiguous copy in host memory."""
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())


def bring_back(memory: Tensor, target: Tensor) -> Tensor:
    """Copy a result into `target` unless it is there already, and return `target`."""
    if memory.data_ptr() != target.data_ptr() or memory.device != target.device:
        target.detach().copy_(memory)
    return target


def scale(memory: Tensor, factor: float) -> Tensor:
    """Multiply integers in place, in float64 and rounding towards zero as Horovod does.

    The engine scales only floating-point numbers.
    """
    return memory if factor == 1.0 else memory.copy_(memory.double() * factor)


def span_of(memory: Tensor) -> Span:
    """Return host memory as the coordinator takes it. Dtypes that the coordinator does not know are sent as bytes."""
    return Span(*span(memory), code_of(memory.dtype))


def unit(tensor: Tensor) -> int:
    """Return the number of elements of the span that make up one element of the tensor."""
    return 1 if tensor.dtype in DTYPES else tensor.element_size()


def row_width(tensor: Tensor) -> int:
    """Return the number of elements of the span of `rows_in_host` that make up one row; it is at least one."""
    return max(tensor.shape[1:].numel(), 1) * unit(tensor)


def from_rows(output: ArenaBuffer | None, counts: Sequence[int], like: Tensor) -> tuple[Tensor, list[int]]:
    """Return the rows that a collective of `rows_in_host` received, and the number of rows from each rank.

    output: the received memory. counts: the number of elements of the span from each rank. like: a tensor whose dtype,
    device and row shape the rows get.
    """
    width = row_width(like)
    rows = [count // width for count in counts]
    shape = torch.Size((sum(rows), *like.shape[1:]))
    if not shape.numel():
        return like.new_empty(shape), rows
    assert output is not None
    flat = torch.frombuffer(output, dtype=like.dtype, count=sum(counts) // unit(like))
    return flat.view(shape).to(like.device), rows
