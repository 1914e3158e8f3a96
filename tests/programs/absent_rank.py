"""Collectives for ever; at some point the last rank stays away, and the others wait for it.

Arguments: a folder, where the last rank makes the file `ready` after a few rounds; how it goes on. "blocking": in the
same way until there is a file `stop`. "async": the others start one more, and don't wait for it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import paceline

FOREVER = 600.0


def main(folder: Path, how: str) -> None:
    group = paceline.init(timeout=60)
    array = np.ones(4096, np.float32)
    late = group.rank == group.size - 1
    for _ in range(10):
        group.all_reduce(array, "avg")
    if late:
        (folder / "ready").touch()
        print("ready", flush=True)
    while how == "blocking":
        if late and (folder / "stop").exists():
            break
        group.all_reduce(array, "avg")  # blocking
        time.sleep(0.005)
    operation = None if late else group.all_reduce(array, "avg", async_op=True)
    time.sleep(FOREVER)  # async
    assert operation is None


main(Path(sys.argv[1]), sys.argv[2])
