"""A rank of two on one machine, whose group counts its large calls as one between machines does: it looks before those
calls at which it stops, and before no others."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline import _engine

LARGE = _engine.LARGE_CALL
SUM = (_engine.OPS["SUM"], 1.0)


def array(size: int) -> Any:
    return np.ones(size, np.uint8)


def tensor(size: int) -> Any:
    return torch.ones(size, dtype=torch.uint8)


class Looks:
    """Notes before which calls it was asked to look; the next stop comes `pause` calls later."""

    def __init__(self, group: _engine.Group, stop: int, pause: int) -> None:
        self.before: list[int] = []
        self._group, self._pause = group, pause
        group.count_large(stop, self)

    def __call__(self) -> None:
        count = self._group.large_calls(0)[0]
        self.before.append(count)
        self._group.stop_before(count + self._pause)


def call(
    group: _engine.Group, make: Callable[[int], Any], collective: str, sizes: tuple[int, ...], *rest: float
) -> None:
    data = [make(size) for size in sizes]
    assert getattr(group, f"{collective}_{make.__name__}")(*data, *rest)
    assert data[0][-1] == (1 if collective == "all_gather" else group.size)


with paceline.init() as world:
    native = world.native
    with pytest.raises(ValueError, match="does not count"):
        native.large_calls(0)

    looks = Looks(native, 3, 2)
    begun: list[tuple[str, int]] = []
    for make in (array, tensor):
        for whole in (LARGE, LARGE - 2):
            call(native, make, "all_reduce", (whole,), *SUM)
            call(native, make, "all_gather", (whole, whole // 2))
            call(native, make, "reduce_scatter", (whole // 2, whole), *SUM)
            assert getattr(native, f"broadcast_{make.__name__}")(make(whole), 0)
        begun += [("all_reduce", LARGE), ("all_gather", LARGE), ("reduce_scatter", LARGE)]
    assert looks.before == [3, 5], looks.before

    # Calls by address, which may run beside each other.
    data = [array(LARGE) for _ in range(3)]
    large = [_engine.CollectiveCall("all_reduce", target=each.ctypes.data, count=LARGE) for each in data]
    under_way = [native.start(each, _engine.ASYNC) for each in large]
    native.finish_large()
    assert all(operation is not None and operation.done() for operation in under_way)
    begun += 3 * [("all_reduce", LARGE)]
    assert looks.before == [3, 5, 7], looks.before

    count, most, calls = native.large_calls(0)
    assert count == len(begun) and most <= 2
    assert [(collective, nbytes) for collective, nbytes, _ in calls] == begun
    assert all(seconds > 0 for *_, seconds in calls[:6]), calls
    assert native.large_calls(5)[2] == calls[5:]

    # What looks refers to the group, and the group to it.
    subgroup = world.split(0)
    assert subgroup is not None
    cycle = Looks(subgroup.native, 1, 1)
    gone = weakref.ref(cycle)
    subgroup.close()
    del cycle, subgroup
    gc.collect()
    assert gone() is None
