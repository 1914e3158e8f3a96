"""A rank that takes windows of batches for a change for good: `replanned_job.py MACHINES POLICY [goes]`.

Plans change again and again while all ranks submit, in any order; sums are exact. With `goes`, rank 1 is gone as soon
as links are to be measured.
"""

from __future__ import annotations

import os
import random
import sys

import numpy as np
from coordinated_rank import joined, span

SIZES = [3, 50_000, 300_000, 5, 400_000, 40]
"""Elements; two are large on their own."""
TIMES = 2


def main(machines: str, policy: str, goes: bool) -> None:
    group, coordinator = joined(machines, policy, fusion_bytes=1 << 20, wait="yield")
    from paceline.adapt.drift import Drift
    from paceline.adapt.network import AssumedNetwork
    from paceline.adapt.replanner import Replanner
    from paceline.errors import CommunicationError

    plan_again, replans = Replanner.plan_again, np.zeros(1, np.int64)

    def counted(self: Replanner, *arguments: object) -> None:
        if goes and group.rank == 1:
            os._exit(9)
        plan_again(self, *arguments)  # type: ignore[arg-type]
        replans[0] += 1

    Replanner.plan_again = counted  # type: ignore[method-assign]
    measured = AssumedNetwork.measured
    AssumedNetwork.measured = lambda self, *found: (measured(self, *found)[0], "all links")  # type: ignore[method-assign]
    AssumedNetwork.slower = lambda self, now: 2.0  # type: ignore[method-assign]
    Drift.changed = lambda self, *call: 2.0 if replans[0] < TIMES else None  # type: ignore[method-assign]
    mine = random.Random(group.rank)
    seen, step = replans.copy(), 0
    try:
        while seen[0] < TIMES:
            step += 1
            arrays = [np.full(size, group.rank + step % 5 + number, np.float32) for number, size in enumerate(SIZES)]
            order = sorted(range(len(arrays)), key=lambda _: mine.random())
            under_way = [coordinator.all_reduce(f"layer{number}", span(arrays[number])) for number in order]
            for request in under_way:
                request.wait()
            for number, array in enumerate(arrays):
                expected = np.float32(sum(rank + step % 5 + number for rank in range(group.size)))
                assert (array == expected).all(), (step, number)
            seen = replans.copy()
            coordinator.all_reduce("seen", span(seen), "min").wait()
    except CommunicationError as error:
        print(error, flush=True)
        if goes:
            return
        raise
    coordinator.close()
    group.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], len(sys.argv) > 3)
