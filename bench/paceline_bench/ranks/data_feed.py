"""The way of batches from the host to devices: the host makes them ahead, and sends each when devices ask for it.

A device that asks when it needs a batch waits for all of its way. One that asks for the next batch when it begins with
this one has it on its way while it computes: the pre-loading of ScaleDNN's section IV-B.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import torch
from torch import Tensor

Batch = tuple[Tensor, ...]


class Feed:
    """A device's side. world: the group of all ranks. host: the rank that sends. like: a batch as it will come.

    Batches lie in two places in turn, because after a step glibc takes longer to find memory than a small batch takes
    on its way. So the one before the last must no longer be used when the next one is asked for.
    """

    def __init__(self, world: Any, host: int, like: Batch) -> None:
        self._world, self._host = world, host
        self._places = cycle([tuple(torch.empty_like(one) for one in like) for _ in range(2)])
        self._coming: deque[tuple[Batch, list[Any]]] = deque()

    def ask(self) -> None:
        """Ask for the next batch."""
        self._world.send(np.zeros(1, np.uint8), self._host)
        place = next(self._places)
        self._coming.append((place, [self._world.recv(one, self._host, async_op=True) for one in place]))

    def next(self) -> Batch:
        """Wait for the batch that was asked for first."""
        place, operations = self._coming.popleft()
        for operation in operations:
            operation.wait()
        return place


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
