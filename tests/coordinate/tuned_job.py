"""A rank of a job that is tuned: `tuned_job.py MACHINES STEPS`. Sums are exact while the size of batches changes."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest
from coordinated_rank import joined, span

SIZES = [3, 20_000, 70_000, 5, 40, 270_000, 1]
"""Elements; some fit together, some do not."""
HERE = [0, 1000, 300_000, 1 << 20, 64 << 20]
"""What rank 0 chooses from."""


def main(machines: str, steps: int) -> None:
    group, coordinator = joined(machines, "board", autotune=True)
    mine = random.Random(group.rank)
    arrays = [np.empty(size, np.float32) for size in SIZES]
    for step in range(steps):
        for number in sorted(range(len(arrays)), key=lambda _: mine.random()):
            arrays[number].fill(group.rank + step % 5 + number)
            if group.rank == 0 and mine.random() < 0.1:
                coordinator.tune(mine.choice(HERE))
        under_way = [
            coordinator.all_reduce(f"layer{number}", span(arrays[number]))
            for number in sorted(range(len(arrays)), key=lambda _: mine.random())
        ]
        for request in under_way:
            request.wait()
        for number, array in enumerate(arrays):
            expected = np.float32(sum(rank + step % 5 + number for rank in range(group.size)))
            assert (array == expected).all(), (step, number)
    if group.rank:
        with pytest.raises(ValueError, match="only rank 0 can tune"):
            coordinator.tune(1 << 20)
    else:
        with pytest.raises(ValueError, match="fusion_bytes must be from 0"):
            coordinator.tune(-1)
    coordinator.close()
    group.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
