"""Batches on a device, each of which travels there while the device computes on the one before.

This is the pre-loading of Xu et al., "ScaleDNN: Data Movement Aware DNN Training on Multi-GPU", section IV-B: copies on
a stream of their own, from pinned memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class _Moved:
    """A batch on its way. arrived: the event after its last copy, None if it is there."""

    batch: Any
    weight: float
    arrived: torch.cuda.Event | None


class OnDevice:
    """The batches of `loader` with their tensors on `device`; the next one travels while this one is used.

        loader = paceline.torch.data.Loader(dataset, batch_size=256)
        for inputs, targets in (batches := paceline.torch.data.OnDevice(loader, "cuda")):
            optimizer.zero_grad()
            (batches.weight * loss(model(inputs), targets)).backward()
            optimizer.step()

    For a GPU the tensors are copied to pinned memory and from there on a stream of this object; work that is enqueued
    afterwards on the stream which is current when a batch is given waits for its copies. For the CPU they are copied to
    memory of this process. Tensors may be in lists, tuples and dicts; anything else stays as it is. One batch more than
    without this object is in the device's memory.

    Raises what the loader raises, one batch early.
    """

    weight: float = 1.0
    """The loader's `weight` for the batch that was given last, if it has one."""

    def __init__(self, loader: Iterable[Any], device: torch.device | str) -> None:
        self._loader = loader
        self._device = torch.device(device)
        on_gpu = self._device.type == "cuda"
        self._stream = torch.cuda.Stream(self._device) if on_gpu else None  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._loader)
        coming = self._start(batches)
        while coming is not None:
            given, coming = coming, self._start(batches)
            self._await(given)
            self.weight = given.weight
            yield given.batch

    def _start(self, batches: Iterator[Any]) -> _Moved | None:
        """Let the next batch begin its way. Returns None after the last."""
        try:
            batch = next(batches)
        except StopIteration:
            return None
        weight = getattr(self._loader, "weight", 1.0)
        on_stream: AbstractContextManager[Any] = torch.cuda.stream(self._stream) if self._stream else nullcontext()
        with on_stream:
            moved = _mapped(batch, self._moved)
        return _Moved(moved, weight, self._stream.record_event() if self._stream is not None else None)

    def _moved(self, tensor: Tensor) -> Tensor:
        if self._stream is None:
            return tensor.to(self._device, copy=True)
        return tensor.pin_memory().to(self._device, non_blocking=True)

    def _await(self, moved: _Moved) -> None:
        """Let what is enqueued from now on come after the copies, and keep the memory until it is done."""
        if moved.arrived is None:
            return
        current = torch.cuda.current_stream(self._device)
        current.wait_event(moved.arrived)
        _mapped(moved.batch, lambda tensor: tensor.record_stream(current))


def _mapped(batch: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return the batch with each tensor replaced by what `change` makes of it."""
    if isinstance(batch, Tensor):
        return change(batch)
    if type(batch) in (list, tuple):
        return type(batch)(_mapped(part, change) for part in batch)
    if type(batch) is dict:
        return {key: _mapped(part, change) for key, part in batch.items()}
    return batch
