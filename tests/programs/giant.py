"""More bytes than 32 bits can count, in one message and in one reduction."""

from __future__ import annotations

import numpy as np

import paceline

with paceline.init(timeout=90) as group:
    count = (1 << 32) + 5
    array = np.full(count, group.rank + 1, np.uint8)
    group.all_reduce(array)
    assert array[0] == array[1 << 31] == array[-1] == 3
    array[-1] = 7 + group.rank
    group.broadcast(array, 1)
    assert array[-1] == 8
    array[:] = 7 + group.rank
    almost = array[: (1 << 32) - 64]
    group.broadcast(almost, 1)
    assert (almost == 8).all()
