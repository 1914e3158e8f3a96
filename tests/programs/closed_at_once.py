"""Ranks that close a group as soon as their own part of its last call is done, while others still read what they left.

Arguments: the name of each rank's machine, a letter each, and how many groups are made and closed for each call.
"""

from __future__ import annotations

import os
import sys

import numpy as np

import paceline

COUNT = 80_000
"""Elements of 4 bytes: more than goes to others unread, less than what a rank must wait for others to read."""

MACHINES, ROUNDS = sys.argv[1], int(sys.argv[2])

os.environ["PACELINE_MACHINE"] = MACHINES[int(os.environ["RANK"])]
with paceline.init(timeout=60) as world:
    size = world.size
    mine = np.full(COUNT, world.rank, np.float32)
    everybody = np.repeat(np.arange(size, dtype=np.float32), COUNT).reshape(size, COUNT)
    for number in range(ROUNDS):
        root = number % size
        for call in ("broadcast", "all_gather", "gather", "scatter", "all_reduce"):
            group = world.split(0)
            assert group is not None
            result, rooms = mine.copy(), np.zeros_like(everybody)
            if call == "broadcast":
                group.broadcast(result, root)
                assert (result == root).all()
            elif call == "all_gather":
                group.all_gather(rooms, mine)
                assert (rooms == everybody).all()
            elif call == "gather":
                group.gather(mine, rooms if world.rank == root else None, root)
                assert world.rank != root or (rooms == everybody).all()
            elif call == "scatter":
                group.scatter(result, everybody if world.rank == root else None, root)
                assert (result == world.rank).all()
            else:
                group.all_reduce(result)
                assert (result == size * (size - 1) / 2).all()
            group.close()
