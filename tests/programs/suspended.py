"""The whole job is stopped for longer than its timeout while rank 0 waits for rank 1, and goes on as if nothing was."""

from __future__ import annotations

import os
import subprocess
import time

import numpy as np

import paceline

group = paceline.init(timeout=4)
pids = np.empty(2, np.int64)
last = now = time.monotonic()  # before rank 0 can know whom to stop
group.all_gather(pids, np.array([os.getpid()]))
if group.rank == 0:
    both = f"{pids[0]} {pids[1]}"
    subprocess.Popen(["sh", "-c", f"kill -STOP {both}; sleep 6; kill -CONT {both}"])
else:
    while now - last < 3:  # it has yet to be stopped; whenever it is, two looks in a row are so far apart
        time.sleep(0.01)
        last, now = now, time.monotonic()
    time.sleep(0.5)  # rank 0 looks at its clock first
group.barrier()
print("right")
