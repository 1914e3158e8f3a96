"""Rank 0 waits for a request that rank 1 never submits; rank 1 presses its Ctrl-C there, and says what it is told."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
from coordinated_rank import joined, span

from paceline.observe.trace import live

LINES = Path(__file__).read_text().splitlines()


def waits(pid: int) -> bool:
    """Whether rank 0, which is this process, is in the call that waits."""
    number = 1 + next(number for number, line in enumerate(LINES) if line.endswith("# here"))
    return any(one.pid == pid and one.line.endswith(f"{Path(__file__).name}:{number}") for one in live.job(pid)[0])


group, coordinator = joined("00", "board")
array = np.ones(4, np.float32)
pid = np.array([os.getpid()])
try:
    if group.rank == 0:
        group.send(pid, 1)
        request = coordinator.all_reduce("mine", span(array))
        request.wait()  # here
    else:
        group.recv(pid, 0)
        request = coordinator.all_reduce("another", span(array))
        while not waits(int(pid[0])):
            pass
        os.kill(int(pid[0]), signal.SIGINT)
        request.wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
except RuntimeError as error:
    print(error, flush=True)
os._exit(0)
