"""A rank whose policy changes at any moment: `changed_job.py MACHINES STEPS`. Sums are exact all the time."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
from coordinated_rank import joined, span

SIZES = [3, 50_000, 70_000, 5, 200_000, 40, 1]
"""Elements; some fit together, some do not."""
ORDERS = [[], [[f"layer{number}" for number in range(len(SIZES))]], [["layer6", "layer5"], ["layer0"]]]
EPOCH = 30
"""Steps between joins."""


def main(machines: str, steps: int) -> None:
    group, coordinator = joined(machines, "board", autotune=True, autotune_policy=True, fusion_bytes=300_000)
    native = coordinator._native
    coordinator._tuning = None  # changes come from here
    mine = random.Random(group.rank)
    seen = set()

    def change() -> None:
        if group.rank == 0 and mine.random() < 0.15:
            policy = mine.choice(["board", "graph", "cycle"])
            native.use(policy, mine.choice(ORDERS) if policy == "graph" else [])

    for step in range(steps):
        last = group.size - 1  # has a step less than others in each epoch
        if step % EPOCH == EPOCH - 1 and group.rank == last:
            coordinator.join().wait()
            continue
        alive = group.size - (step % EPOCH == EPOCH - 1)
        arrays = [np.full(size, group.rank + step % 5 + number, np.float32) for number, size in enumerate(SIZES)]
        under_way = []
        for number in sorted(range(len(arrays)), key=lambda _: mine.random()):
            change()
            under_way.append(coordinator.all_reduce(f"layer{number}", span(arrays[number])))
        for request in under_way:
            change()
            request.wait()
        for number, array in enumerate(arrays):
            expected = np.float32(sum(rank + step % 5 + number for rank in range(alive)))
            assert (array == expected).all(), (step, number)
        seen.add(coordinator.policy)
        if alive < group.size:
            coordinator.join().wait()
    assert seen == {"board", "graph", "cycle"}, seen
    if group.rank:
        with pytest.raises(ValueError, match="only rank 0 can change"):
            native.use("graph")
    coordinator.close()
    group.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
