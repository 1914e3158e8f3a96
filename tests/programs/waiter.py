"""Rank 0 waits for a rank that does not come; Ctrl-C must reach it there, and the other rank must hear of it."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

import paceline
from paceline.errors import Aborted
from paceline.observe.trace import live


def reduces(pid: int) -> bool:
    """Whether rank 0, which is this process, is in its all-reduce."""
    dumps, _ = live.job(pid)
    rows = (row for dump in dumps if dump.pid == pid for row in dump.events)
    return any(row.collective == "all_reduce" and row.state == "running" for row in rows)


group = paceline.init(timeout=60)
array = np.ones(5000, np.float32)
group.barrier()
if group.rank == 0:
    pid = np.array([os.getpid()])
    group.send(pid, 1)
    try:
        group.all_reduce(array)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit()
else:
    pid = np.array([0])
    group.recv(pid, 0)
    while not reduces(int(pid[0])):
        pass
    os.kill(int(pid[0]), signal.SIGINT)
    try:
        while True:
            group.recv(array, 0, tag=9)
    except Aborted as error:
        print(error, flush=True)
