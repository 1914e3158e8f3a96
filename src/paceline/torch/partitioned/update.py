"""The time of an optimizer, measured with Adam in one pass (`fused`), whose states the memory is counted for too."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn
from torch.optim import Adam

from paceline.torch.freed_memory import returning
from paceline.torch.partitioned.crowds import Clock
from paceline.torch.partitioned.cut import Weight

_LARGE, _SMALL = 1 << 21, 64
"""Elements of a tensor that does not stay in the caches with its gradient and states, and of one that takes no time."""
_MANY = 32
"""Small tensors that are updated at once."""
_HELD = 4
"""The weight, its gradient and two states."""
_ROUNDS = 10
"""The number of timings, after one that makes the states; the fastest counts."""


class Update(NamedTuple):
    """Seconds of an optimizer's step for each weight, and for each of its bytes."""

    per_weight: float = 0.0
    per_byte: float = 0.0

    def seconds(self, weights: Iterable[Weight]) -> float:
        """Its step for these weights, of which only those that are trained count, and each once."""
        trained = {one.identity: one.nbytes for one in weights if one.trained}
        return len(trained) * self.per_weight + sum(trained.values()) * self.per_byte


NOTHING = Update()
"""The step of an optimizer that takes no time."""


def measured_update(available: float, clock: Clock = time.perf_counter) -> Update:
    """Measure it here and now, by this clock.

    available: bytes of memory, of which it takes a sixteenth at most, or 32 MiB.
    """
    large = int(min(_LARGE, max(_SMALL, available / 16 / _HELD / torch.float32.itemsize)))
    with returning():
        small = _seconds([_SMALL] * _MANY, clock) / _MANY
        whole = _seconds([large], clock)
    return Update(small, max(0.0, whole - small) / (large * torch.float32.itemsize))


def _seconds(sizes: Iterable[int], clock: Clock) -> float:
    weights = [nn.Parameter(torch.zeros(size, dtype=torch.float32)) for size in sizes]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer = Adam(weights, fused=True)
    optimizer.step()
    times = []
    for _ in range(_ROUNDS):
        begin = clock()
        optimizer.step()
        times.append(clock() - begin)
    return min(times)
