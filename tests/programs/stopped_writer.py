"""Rank 1 is stopped amid all-reduces in place, and goes on once rank 0 has given up and has its array for itself."""

from __future__ import annotations

import os
import signal
import subprocess

import numpy as np

import paceline
from paceline.errors import Timeout

group = paceline.init(timeout=2)
other = group.split(0)
pids = np.empty(2, np.int64)
group.all_gather(pids, np.array([os.getpid()]))
array = paceline.empty(1 << 22, np.float32)
array[:] = 0
if group.rank == 0:
    subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -STOP {pids[1]}"])
try:
    while True:
        group.all_reduce(array)
except Timeout:
    array[:] = 100
if group.rank == 0:
    os.kill(int(pids[1]), signal.SIGCONT)
other.barrier()
assert (array == 100).all()
other.all_reduce(array)
assert (array == 200).all()
print("right")
