"""Tensors as the coordinator takes them: contiguous memory of the host. Others are copied there and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from paceline.coordinate import Span
from paceline.torch.staging import code_of, is_plain, span
from paceline.torch.tables import DTYPES


def reducible(tensor: Tensor) -> None:
    """Raise ValueError unless the engine can combine tensors of this kind."""
    movable(tensor)
    if tensor.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise ValueError(f"Tensor type {tensor.type()} is not supported; a reduction takes {names}")


def movable(tensor: Tensor) -> None:
    """Raise ValueError for what has no elements in a row."""
    if tensor.layout is not torch.strided:
        raise ValueError("a sparse tensor has no place here: hvd.sparse_allreduce_async takes it, or tensor.to_dense()")


def rows_of(tensor: Tensor, call: str) -> int:
    """The length of the first dimension, along which `call` cuts and joins. ValueError for a scalar."""
    movable(tensor)
    if tensor.dim() == 0:
        raise ValueError(f"{call} needs a tensor with a first dimension, not a scalar: tensor.reshape(1) has one")
    return tensor.shape[0]


def in_host(tensor: Tensor) -> Tensor:
    """The tensor itself if its memory can be used as it is, else a copy in the host's memory."""
    plain = tensor.detach()
    if plain.is_cpu and is_plain(plain):
        return plain
    return copy_in_host(plain)


def rows_in_host(tensor: Tensor) -> Tensor:
    """As `in_host`; if its rows have no elements, one that stands for each, so that they are counted on their way."""
    return in_host(tensor) if tensor.shape[1:].numel() else torch.zeros(tensor.shape[0], dtype=tensor.dtype)


def copy_in_host(tensor: Tensor) -> Tensor:
    """A contiguous copy in the host's memory."""
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())


def bring_back(memory: Tensor, target: Tensor) -> Tensor:
    """Put a result where it belongs, if it is not there; returns `target`."""
    if memory.data_ptr() != target.data_ptr() or memory.device != target.device:
        target.detach().copy_(memory)
    return target


def scale(memory: Tensor, factor: float) -> Tensor:
    """Multiply whole numbers in place, in float64 and towards zero, as Horovod does. The engine scales floats only."""
    return memory if factor == 1.0 else memory.copy_(memory.double() * factor)


def span_of(memory: Tensor) -> Span:
    """Host memory as the coordinator takes it. Types that it does not know move as bytes."""
    return Span(*span(memory), code_of(memory.dtype))


def unit(tensor: Tensor) -> int:
    """How many of the span's elements make up one of the tensor's."""
    return 1 if tensor.dtype in DTYPES else tensor.element_size()


def row_width(tensor: Tensor) -> int:
    """How many elements of the span of `rows_in_host` make up a row: at least one."""
    return max(tensor.shape[1:].numel(), 1) * unit(tensor)


def from_rows(output: Any, counts: Sequence[int], like: Tensor) -> tuple[Tensor, list[int]]:
    """What a collective of `rows_in_host` received, on the device of `like`, as rows like its; and each rank's count.

    counts: elements of the span from each rank.
    """
    width = row_width(like)
    rows = [count // width for count in counts]
    shape = torch.Size((sum(rows), *like.shape[1:]))
    if not shape.numel():
        return like.new_empty(shape), rows
    flat = torch.frombuffer(output, dtype=like.dtype, count=sum(counts) // unit(like))
    return flat.view(shape).to(like.device), rows
