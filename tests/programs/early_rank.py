"""Rank 0, on a machine of its own, begins many large all-reduces before rank 1, which waits for a word of it, has begun
any: no call may wait for the others."""

from __future__ import annotations

import os

import numpy as np

CALLS = 21
COUNT = 1 << 18


def main() -> None:
    rank = int(os.environ["RANK"])
    os.environ["PACELINE_MACHINE"] = f"machine-{rank}"
    import paceline

    with paceline.init(timeout=30) as group:
        arrays = [np.full(COUNT, rank + call, np.float32) for call in range(CALLS)]
        word = np.zeros(1, np.float32)
        if rank == 1:
            group.recv(word, 0)
        under_way = [group.all_reduce(array, async_op=True) for array in arrays]
        if rank == 0:
            group.send(word, 1)
        for call, (array, operation) in enumerate(zip(arrays, under_way, strict=True)):
            operation.wait()
            assert (array == 1 + 2 * call).all(), call


if __name__ == "__main__":
    main()
