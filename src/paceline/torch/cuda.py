"""The part of torch's CUDA that the backend needs. A build of torch without CUDA has none of it; a test fills it in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.futures import Future


def stream(device: torch.device) -> int:
    """CUDA's number of the stream that is current in this thread."""
    return int(torch.cuda.current_stream(device).cuda_stream)


@contextmanager
def aside(device: torch.device) -> Iterator[None]:
    """Send what this thread hands to the device to a stream of its own meanwhile."""
    with torch.cuda.stream(torch.cuda.Stream(device)):  # type: ignore[no-untyped-call]  # torch gives it no types
        yield


def captures() -> bool:
    """Return whether the current stream records a CUDA graph, which only NCCL's collectives can be part of."""
    return torch.cuda.is_current_stream_capturing()


def finish(device: torch.device) -> None:
    """Wait for the current stream."""
    torch.cuda.current_stream(device).synchronize()


def host_memory(like: Tensor) -> Tensor:
    """Pinned, contiguous memory of the host for as many elements; first waits for the current stream."""
    torch.cuda.current_stream(like.device).synchronize()
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)


def copy(tensor: Tensor) -> Tensor:
    """A contiguous copy on the same device, in the order of the current stream."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def empty(shape: Sequence[int], like: Tensor, on: int | None = None) -> Tensor:
    """Contiguous memory of `like`'s dtype and device, for use on the stream with this number of CUDA's, else on the
    current one."""
    if on is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    with torch.cuda.stream(torch.cuda.ExternalStream(on, like.device)):  # type: ignore[no-untyped-call]
        return torch.empty(shape, dtype=like.dtype, device=like.device)


def used_here(tensor: Tensor) -> Tensor:
    """Note that a tensor that was allocated on another stream is in use on the current one, and return it."""
    tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor


def zeros(count: int, device: torch.device) -> Tensor:
    """So many float32 on the device."""
    return torch.zeros(count, device=device)


def future(device: torch.device, results: list[Tensor], order: Callable[[int], None]) -> Future[list[Tensor]]:
    """A complete future, whose readers' streams wait for what `order` lets a stream wait for."""
    made: Future[list[Tensor]] = Future(devices=[device])
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch gives it no types
    order(side.cuda_stream)
    with torch.cuda.stream(side):
        made.set_result(results)
    return made
