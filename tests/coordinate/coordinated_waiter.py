"""Rank 0 waits for a request that rank 1 never hands in, and is interrupted; rank 1 says what it is told."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
from coordinated_rank import joined, span

group, coordinator = joined("00", "board")
array = np.ones(4, np.float32)
other = np.ones(4, np.float32)
try:
    if group.rank == 0:
        threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
        coordinator.all_reduce("mine", span(array)).wait()
    else:
        coordinator.all_reduce("another", span(other)).wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
except RuntimeError as error:
    print(error, flush=True)
os._exit(0)
