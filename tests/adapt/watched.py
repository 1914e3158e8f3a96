"""A rank of two on one machine, whose group is watched as one between machines is: large calls are refused, and nothing
of them is done; small ones go straight to the engine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import paceline
from paceline import _engine
from paceline.adapt.group import AdaptiveGroup
from paceline.calibration.adapt import LARGE_CALL

nobody: Any = None
add = (_engine.OPS["SUM"], 1.0)
with paceline.init() as world:
    group = AdaptiveGroup(nobody, world.native, nobody, nobody)

    def array(size: int) -> Any:
        return np.ones(size, np.uint8)

    def tensor(size: int) -> Any:
        return torch.ones(size, dtype=torch.uint8)

    def taken(make: Callable[[int], Any], collective: str, sizes: tuple[int, ...], *rest: float) -> bool:
        before = group.sequence
        data = [make(size) for size in sizes]
        done: bool = getattr(group, f"{collective}_{make.__name__}")(*data, *rest)
        assert group.sequence - before == done
        assert not done or data[0][-1] == (1 if collective == "all_gather" else world.size)
        return done

    for make in (array, tensor):
        for whole, small in ((LARGE_CALL, False), (LARGE_CALL - 2, True)):
            assert taken(make, "all_reduce", (whole,), *add) == small
            assert taken(make, "all_gather", (whole, whole // 2)) == small
            assert taken(make, "reduce_scatter", (whole // 2, whole), *add) == small
