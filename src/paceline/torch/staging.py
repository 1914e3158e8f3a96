"""Tensors as plain memory: contiguous, with an address, a count and a dtype that the engine knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from paceline.torch import cuda
from paceline.torch.tables import CODES

Copies: TypeAlias = list[tuple[Tensor, Tensor]]
"""Pairs of a tensor that a result belongs in, and the tensor that the engine puts it in."""
Span: TypeAlias = tuple[int, int]
"""The address and the number of elements of memory."""
NOTHING: Span = (0, 0)


_OWN_MEMORY = (Tensor, torch.nn.Parameter)
"""Classes whose tensors have memory; others may stand for tensors that they hold, or for none."""


def usable(tensor: Tensor) -> bool:
    """Return whether the tensor's memory can be used as it is, wherever it lies."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg() and _has_memory(tensor)


def _has_memory(tensor: Tensor) -> bool:
    if type(tensor) in _OWN_MEMORY or not tensor.numel():
        return True
    try:
        return tensor.data_ptr() != 0
    except RuntimeError:  # a fake one
        return False


def is_plain(tensor: Tensor) -> bool:
    """Return whether the host can use the tensor's memory as it is."""
    return tensor.is_cpu and usable(tensor)


def plain(tensor: Tensor, stays: bool = False) -> Tensor:
    """The tensor itself if it `stays` on its device or the host can use its memory, else a copy of the host's."""
    if stays or is_plain(tensor):
        return tensor
    if not _has_memory(tensor):
        return plain(_held(tensor))
    if not tensor.is_cpu:
        return cuda.host_memory(tensor).copy_(tensor.detach())
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def plain_output(tensor: Tensor, copies: Copies, stays: bool = False) -> Tensor:
    """Memory for a result that belongs in `tensor`: its own, or other memory of the host, noted in `copies`.

    stays: whether a device puts the result there itself.
    """
    if stays or is_plain(tensor):
        return tensor
    if not _has_memory(tensor):
        return plain_output(_held(tensor), copies)
    memory = torch.empty(tensor.shape, dtype=tensor.dtype) if tensor.is_cpu else cuda.host_memory(tensor)
    copies.append((tensor, memory))
    return memory


def _held(tensor: Tensor) -> Tensor:
    """The tensor that the result of a functional collective stands for. Raises TypeError for any other class."""
    wait = getattr(tensor, "trigger_wait", None)
    if wait is None:
        raise TypeError(f"paceline moves the memory of tensors, and this {type(tensor).__name__} has none of its own")
    held: Tensor = wait()
    return held


def copy_back(copies: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Copy results from staging memory to where they belong."""
    for target, source in copies:
        target.data.copy_(source)


def span(tensor: Tensor) -> Span:
    """The memory of a plain tensor, in elements of its dtype, or in bytes if the engine does not know that."""
    if tensor.dtype in CODES:
        return tensor.data_ptr(), tensor.numel()
    return tensor.data_ptr(), tensor.nbytes


def slices(tensor: Tensor, sizes: Sequence[int]) -> list[Span]:
    """The memory of the parts of a plain tensor, which is cut along its first dimension.

    sizes: the number of rows of each part.
    """
    address, count = span(tensor)
    rows = tensor.shape[0] if tensor.dim() else 1
    per_row = count // rows if rows else 0
    width = tensor.element_size() if tensor.dtype in CODES else 1
    result: list[Span] = []
    for size in sizes:
        length = size * per_row
        result.append((address, length) if length else NOTHING)
        address += length * width
    return result


def adjacent(tensors: Sequence[Tensor]) -> bool:
    """Return whether plain tensors are of equal size and lie one behind the other, as if they were one."""
    first = tensors[0]
    size, start = first.nbytes, first.data_ptr()
    return all(t.nbytes == size and t.data_ptr() == start + i * size for i, t in enumerate(tensors))
