"""Converts between tensors and the contiguous memory that the coordinator takes, of the host or of the tensor's own
device; other tensors are copied."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline._engine import ArenaBuffer
from paceline.coordinate import Coordinator, OnDevice, Span
from paceline.torch import cuda
from paceline.torch.staging import is_plain, span, usable
from paceline.torch.tables import BYTES, CODES, DTYPES


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


def copy_in_host(tensor: Tensor) -> Tensor:
    """Return a contiguous copy in host memory."""
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())


def stays(coordinator: Coordinator, tensor: Tensor) -> bool:
    """Return whether a request for the tensor can be carried out on its device."""
    return tensor.device.type == "cuda" and coordinator.takes_devices


def memory_of(tensor: Tensor, on_device: bool) -> Tensor:
    """Return the tensor itself if its memory can be used directly, else a contiguous copy in host memory, or on its
    device."""
    if not on_device:
        return in_host(tensor)
    return tensor if usable(tensor) else cuda.copy(tensor)


def rows_in_memory(tensor: Tensor, on_device: bool) -> Tensor:
    """Return what `memory_of` returns; rows without elements get one element each, so that they can be counted."""
    if tensor.shape[1:].numel():
        return memory_of(tensor, on_device)
    return cuda.empty(tensor.shape[:1], tensor) if on_device else torch.zeros(tensor.shape[0], dtype=tensor.dtype)


def copy_of(tensor: Tensor, on_device: bool) -> Tensor:
    """Return a contiguous copy in host memory, or on the tensor's device."""
    return cuda.copy(tensor) if on_device else copy_in_host(tensor)


def place_of(memory: Tensor) -> OnDevice | None:
    """Return where a request that is submitted now finds this memory; None for memory of the host."""
    return None if memory.is_cpu else OnDevice(memory.device.index or 0, cuda.stream(memory.device))


def back_at(memory: Tensor, tensor: Tensor) -> Tensor:
    """Return the memory, or a copy of it on the tensor's device if it is not there."""
    return memory if memory.device == tensor.device else memory.to(tensor.device)


def bring_back(memory: Tensor, target: Tensor) -> Tensor:
    """Copy a result into `target` unless it is there already, and return `target`."""
    if memory.data_ptr() != target.data_ptr() or memory.device != target.device:
        target.detach().copy_(memory)
    return target


def scaled_by_engine(memory: Tensor) -> bool:
    """Return whether a request scales this memory. The engine scales only floating-point numbers, and in the host."""
    return memory.is_cpu and memory.is_floating_point()


def scale(memory: Tensor, factor: float) -> Tensor:
    """Multiply in place; integers in float64 and rounding towards zero, as Horovod does."""
    if factor != 1.0:
        numbers = memory.detach()
        numbers.copy_(numbers * factor if numbers.is_floating_point() else numbers.double() * factor)
    return memory


def span_of(memory: Tensor) -> Span:
    """Return memory as the coordinator takes it. Dtypes that the coordinator does not know are sent as bytes."""
    return Span(*span(memory), CODES.get(memory.dtype, BYTES))


def foreign(tensor: Tensor) -> str:
    """Return the dtype of a tensor that is sent as bytes, as the coordinator's `of`; "" for a dtype that it has."""
    return "" if tensor.dtype in CODES else f"{str(tensor.dtype).removeprefix('torch.')} "


def unit(tensor: Tensor) -> int:
    """Return the number of elements of the span that make up one element of the tensor."""
    return 1 if tensor.dtype in CODES else tensor.element_size()


def row_width(tensor: Tensor) -> int:
    """Return the number of elements of the span of `rows_in_memory` that make up one row; it is at least one."""
    return max(tensor.shape[1:].numel(), 1) * unit(tensor)


class RowsOnDevice:
    """Allocates rows with the dtype, device and row shape of `like` for a collective of `rows_in_memory`."""

    def __init__(self, like: Tensor) -> None:
        self.rows: Tensor
        """Is there once it is known that ranks give some."""
        self._like = like

    def place(self) -> OnDevice:
        """Return the place of the memory for a request that is submitted now, and the allocator of its output."""
        device = self._like.device
        return OnDevice(device.index or 0, cuda.stream(device), self._allocate)

    def _allocate(self, counts: Sequence[int], stream: int) -> int:
        shape = (sum(counts) // row_width(self._like), *self._like.shape[1:])
        self.rows = cuda.empty(shape if torch.Size(shape).numel() else shape[:1], self._like, stream)
        return self.rows.data_ptr()


def from_rows(
    output: ArenaBuffer | RowsOnDevice | None, counts: Sequence[int], like: Tensor
) -> tuple[Tensor, list[int]]:
    """Return the rows that a collective of `rows_in_memory` received, and the number of rows from each rank.

    output: the received memory. counts: the number of elements of the span from each rank. like: a tensor whose dtype,
    device and row shape the rows get.
    """
    width = row_width(like)
    rows = [count // width for count in counts]
    shape = torch.Size((sum(rows), *like.shape[1:]))
    if isinstance(output, RowsOnDevice):
        return cuda.used_here(output.rows) if shape.numel() else cuda.empty(shape, like), rows
    if not shape.numel():
        return like.new_empty(shape), rows
    assert output is not None
    flat = torch.frombuffer(output, dtype=like.dtype, count=sum(counts) // unit(like))
    return flat.view(shape).to(like.device), rows
