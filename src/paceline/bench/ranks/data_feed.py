"""The way of batches from the host to devices: the host makes them ahead, and sends each when devices ask for it.

A device that asks when it needs a batch waits for all of its way. One that asks for the next batch when it begins with
this one has it on its way while it computes: the pre-loading of ScaleDNN's section IV-B.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Batch = tuple[Tensor, ...]


class Feed:
    """A device's side. world: the group of all ranks. host: the rank that sends. like: a batch as it will come."""

    def __init__(self, world: Any, host: int, like: Batch) -> None:
        self._world, self._host, self._like = world, host, like
        self._coming: list[tuple[Tensor, Any]] = []

    def ask(self) -> None:
        """Ask for the next batch, whose memory is new."""
        self._world.send(np.zeros(1, np.uint8), self._host)
        places = [torch.empty_like(one) for one in self._like]
        self._coming += [(place, self._world.recv(place, self._host, async_op=True)) for place in places]

    def next(self) -> Batch:
        """Wait for the batch that was asked for first."""
        mine, self._coming = self._coming[: len(self._like)], self._coming[len(self._like) :]
        for _, operation in mine:
            operation.wait()
        return tuple(place for place, _ in mine)


def serve(world: Any, devices: Sequence[int], batches: Iterable[Batch]) -> None:
    """The host's side: cut each batch into equal parts for these devices, and send them once all have asked."""
    asked = np.empty(1, np.uint8)
    for batch in batches:
        for device in devices:
            world.recv(asked, device)
        parts = list(zip(*(tensor.chunk(len(devices)) for tensor in batch), strict=True))
        sent = [
            world.send(tensor, device, async_op=True)
            for device, part in zip(devices, parts, strict=True)
            for tensor in part
        ]
        for operation in sent:
            operation.wait()


def made(dataset: Any, batch: int, count: int, group: Any) -> Iterable[Batch]:
    """Return so many batches, which Paceline's loader makes ahead. group: that of the host alone."""
    data = importlib.import_module("paceline.torch.data")
    loader = data.Loader(dataset, batch_size=batch, sampler=range(count * batch), num_workers=1, group=group)
    yield from loader
    loader.close()
