"""Two ranks that are idle until the kernel finds no connection alive; says what the next call is told, as JSON.

Connections are tried after a second of silence, so that this takes seconds.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import paceline
from paceline.calibration import rendezvous

DEADLINE = 100.0
ESTABLISHED = "01"

rendezvous.KEPT_ALIVE_AFTER_SECONDS = rendezvous.KEPT_ALIVE_EVERY_SECONDS = 1
rendezvous.KEPT_ALIVE_TRIES = 2


def connected() -> bool:
    """Whether any connection of this machine, which is a namespace of the network, is established."""
    lines = [
        *Path("/proc/self/net/tcp").read_text().splitlines(),
        *Path("/proc/self/net/tcp6").read_text().splitlines(),
    ]
    return any(line.split()[3] == ESTABLISHED for line in lines)


group = paceline.init()
group.all_reduce(np.ones(8))
assert connected()
print("ready", flush=True)
end = time.monotonic() + DEADLINE
while connected() and time.monotonic() < end:
    time.sleep(0.05)
noticed = not connected()
kind, message = "", ""
try:
    group.all_reduce(np.ones(8))
except RuntimeError as error:
    kind, message = type(error).__name__, str(error)
print(json.dumps({"noticed": noticed, "kind": kind, "message": message}), flush=True)
os._exit(7)  # at once: how a rank ends is not what is tested
