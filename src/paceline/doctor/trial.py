"""Two ranks that find out how large all-reduces of ordinary memory go here, as a job's do in their first calls.

RANK=… WORLD_SIZE=2 … python -m paceline.doctor.trial     rank 0 prints what it found as JSON
"""

import json
import time

import numpy as np

import paceline

SIZES = tuple(1 << power for power in (18, 20, 22, 24))
_MOST_CALLS = 100
TIMEOUT = 20.0


def main() -> None:
    """Call until the ways of all sizes are settled: milliseconds."""
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
