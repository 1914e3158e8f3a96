"""A rank of two on one machine, whose group is watched as one between machines is: large calls are refused, and nothing
of them is done; small ones go straight to the engine."""

from typing import Any

import numpy as np

import paceline
from paceline import _engine
from paceline.adapt.group import LARGE, AdaptiveGroup

nobody: Any = None
add = (_engine.OPS["SUM"], 1.0)
with paceline.init() as world:
    group = AdaptiveGroup(nobody, world.native, nobody, nobody)

    def taken(collective: str, sizes: tuple[int, ...], *rest: float) -> bool:
        before = group.sequence
        arrays = [np.ones(size, np.uint8) for size in sizes]
        done: bool = getattr(group, f"{collective}_array")(*arrays, *rest)
        assert group.sequence - before == done
        assert not done or arrays[0][-1] == (1 if collective == "all_gather" else world.size)
        return done

    for whole, small in ((LARGE, False), (LARGE - 2, True)):
        assert taken("all_reduce", (whole,), *add) == small
        assert taken("all_gather", (whole, whole // 2)) == small
        assert taken("reduce_scatter", (whole // 2, whole), *add) == small
