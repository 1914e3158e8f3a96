"""Every rank is given the sum of 4 MiB once."""

from __future__ import annotations

import numpy as np

import paceline

with paceline.init(timeout=60) as group:
    for root in range(group.size):
        value = np.full(1 << 20, group.rank + 1, np.float32)
        group.reduce(value, root)
        assert (value == (group.size * (group.size + 1) / 2 if group.rank == root else group.rank + 1)).all(), root
    group.barrier()
