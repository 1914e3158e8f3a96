"""A rank that calls a collective, waits for a word on its standard input, and calls it again.

Arguments: all_reduce, all_gather or reduce_scatter; calls before and after.
"""

from __future__ import annotations

import sys

import numpy as np

import paceline

COUNT = 3 << 17
"""Elements of the whole."""


def call(group: paceline.Group, collective: str, number: int) -> None:
    mine = np.full(COUNT, group.rank + number, np.float32)
    part = COUNT // group.size
    total = group.size * number + group.size * (group.size - 1) / 2
    if collective == "all_reduce":
        group.all_reduce(mine)
        assert (mine == total).all(), number
    elif collective == "all_gather":
        everything = np.empty(COUNT, np.float32)
        group.all_gather(everything, mine[:part])
        assert (np.arange(group.size) + number == everything.reshape(group.size, part).T).all(), number
    else:
        block = np.empty(part, np.float32)
        group.reduce_scatter(block, mine)
        assert (block == total).all(), number


def main(collective: str, before: int, after: int) -> None:
    with paceline.init(timeout=60) as group:
        for calls in (before, after):
            for number in range(calls):
                call(group, collective, number)
            if group.rank == 0 and calls == before:
                print("ready", flush=True)
                sys.stdin.readline()
            group.barrier()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
