"""Every rank broadcasts 4 MiB once."""

from __future__ import annotations

import numpy as np

import paceline

with paceline.init(timeout=60) as group:
    for root in range(group.size):
        value = np.full(1 << 20, group.rank, np.float32)
        group.broadcast(value, root)
        assert (value == root).all(), root
    group.barrier()
