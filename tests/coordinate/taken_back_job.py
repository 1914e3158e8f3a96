"""A rank of a job with policy graph whose batches are taken back: `taken_back_job.py MACHINES EPOCHS`.

After a few steps in order the last rank joins while the others' batches are under way, so that these are given up and
negotiated. Their memory, private or an arena's, holds what they gave until then, or sums would be wrong.
"""

from __future__ import annotations

import sys

import numpy as np
from coordinated_rank import joined, span

SIZES = [3, 200_000, 20_000, 70_000]
"""Elements: some are packed, some are not."""


def main(machines: str, epochs: int) -> None:
    import paceline

    group, coordinator = joined(machines, "graph")
    arrays = [np.empty(size, np.float32) for size in SIZES] + [paceline.empty(90_000, np.float32)]
    names = [f"layer{number}" for number in range(len(arrays))]
    coordinator.set_order([names[:1], names[1:3], names[3:]])

    def step(alive: int, factor: float) -> None:
        for number, array in enumerate(arrays):
            array.fill(group.rank + number)
        under_way = [
            coordinator.all_reduce(name, span(array), prescale=factor, postscale=1 / factor)
            for name, array in zip(names, arrays, strict=True)
        ]
        for request in under_way:
            request.wait()
        for number, array in enumerate(arrays):
            assert (array == sum(rank + number for rank in range(alive))).all(), number

    for epoch in range(epochs):
        factor = 0.5 if epoch % 3 == 2 else 1.0
        for _ in range(4):
            step(group.size, factor)
        if group.rank < group.size - 1:
            step(group.size - 1, factor)
        coordinator.join().wait()
    assert coordinator.counters().deviations == epochs, coordinator.counters()
    coordinator.close()
    group.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
