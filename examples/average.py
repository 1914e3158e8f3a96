"""Collectives on NumPy arrays, without a framework: paceline run -n 4 examples/average.py"""

import numpy as np

import paceline

with paceline.init() as group:
    mine = np.full(1_000_000, group.rank, np.float32)
    group.all_reduce(mine, "avg")  # in place, on every rank

    parts = np.empty((group.size, 2), np.int64)
    group.all_gather(parts, np.array([group.rank, group.rank**2], np.int64))

    if group.rank == 0:
        print(f"mean of the ranks: {mine[0]}")
        print(f"ranks and their squares: {parts.tolist()}")
