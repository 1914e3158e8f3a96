"""A rank of a job whose policy is tuned: `chosen_job.py JOINS`. JOINS: 1 where rank 1 joins after a few steps."""

from __future__ import annotations

import sys

import numpy as np
from coordinated_rank import joined, span

SIZES = [3, 50_000, 5, 40_000]
MOST = 4000
"""Steps, which are more than it takes."""


def step(coordinator: object, number: int, alive: range) -> None:
    arrays = [np.full(size, coordinator.rank + number % 7, np.float32) for size in SIZES]  # type: ignore[attr-defined]
    under_way = [
        coordinator.all_reduce(f"layer{layer}", span(array))  # type: ignore[attr-defined]
        for layer, array in reversed(list(enumerate(arrays)))
    ]
    for request in under_way:
        request.wait()
    expected = np.float32(sum(rank + number % 7 for rank in alive))
    assert all((array == expected).all() for array in arrays)


def main(joins: bool) -> None:
    group, coordinator = joined("00", "board", autotune=True, autotune_policy=True)
    assert coordinator.policy == "board"
    if joins:
        for number in range(8 if group.rank else 40):
            step(coordinator, number, range(group.size) if number < 8 else range(1))
        coordinator.join().wait()
        for number in range(20):
            step(coordinator, number, range(group.size))
        assert coordinator.policy == "board"
    else:
        stop = np.zeros(1, np.float32)
        for number in range(MOST):
            step(coordinator, number, range(group.size))
            if group.rank == 0 and coordinator._tuning is None:
                stop[0] = 1
            group.broadcast(stop)
            if stop[0]:
                break
        assert stop[0]
    coordinator.close()
    group.close()


if __name__ == "__main__":
    main(sys.argv[1] == "1")
