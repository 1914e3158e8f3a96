"""Two ranks that find out how fast large all-reduces of ordinary memory are here, as a job's ranks do in their first
calls.

    RANK=… WORLD_SIZE=2 … python -m paceline.cli.doctor.trial     rank 0 prints the result as JSON
"""

import json
import time

import numpy as np

import paceline

SIZES = tuple(1 << power for power in (18, 20, 22, 24))
"""The sizes in bytes that are tried."""
_MOST_CALLS = 100
"""The most all-reduces of one size."""
TIMEOUT = 20.0
"""Seconds that each call may take."""


def main() -> None:
    """Call all_reduce until the methods of all sizes are settled, which takes milliseconds."""
    group = paceline.init(timeout=TIMEOUT)
    data = np.zeros(SIZES[-1] // 4, np.float32)
    begin = time.perf_counter()
    for size in SIZES:
        for _ in range(_MOST_CALLS):
            group.all_reduce(data[: size // 4])
            settled = np.array([all(one[1] for one in group.native.ways())], np.uint8)
            group.broadcast(settled, 0)
            if settled[0]:
                break
    seconds = time.perf_counter() - begin
    if group.rank == 0:
        print(json.dumps({"seconds": seconds, "ways": group.native.ways()}))


if __name__ == "__main__":
    main()
