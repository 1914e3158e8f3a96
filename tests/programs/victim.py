"""Random collectives and messages for ever; one rank dies, stops or leaves, the others report what they were told.

Half of the all-reduces and broadcasts of several machines are encoded where they are large enough.

Arguments: how the victim goes ("kill", "stop" or "leave"), how ranks are spread over machines, a seed, the timeout, and
the bytes of the chunks of a ring (0: whatever plan the group chooses).
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from planned import planned

from paceline.plan.ring import ring


def one_collective(group: Any, choice: random.Random) -> None:
    count = choice.choice([1, 100, 3000, 50_000, 400_000])
    array = np.ones(count, np.float32)
    codec = choice.choice([None, "bf16"])
    match choice.randrange(7):
        case 0:
            group.all_reduce(array, codec=codec)
        case 1:
            group.all_gather(np.empty(count * group.size, np.float32), array)
        case 2:
            group.broadcast(array, choice.randrange(group.size), codec=codec)
        case 3:
            group.reduce_scatter(array, np.ones(count * group.size, np.float32))
        case 4:
            group.all_reduce(array, async_op=True).wait()
        case 5:
            group.barrier()
        case 6:
            sent = group.send(array, (group.rank + 1) % group.size, async_op=True)
            group.recv(np.empty_like(array), (group.rank - 1) % group.size)
            sent.wait()


def go(how: str) -> None:
    if how == "leave":
        sys.exit()
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)


def main(how: str, machines: str, seed: int, timeout: float, chunk: int) -> None:
    rank = int(os.environ["RANK"])
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"
    os.environ |= {"PACELINE_TIMEOUT": str(timeout), "PACELINE_START_TIMEOUT": "60"}
    import paceline

    group = paceline.init()
    if chunk:
        group = planned(group, ring(group.size), chunk, timeout)
    choice = random.Random(seed)
    moment = choice.uniform(0, 0.05)
    victim = choice.randrange(group.size)
    try:
        group.barrier()  # whoever is through knows that all ranks have met
        if rank == victim and how != "leave":
            threading.Timer(moment, go, [how]).start()
        start = time.monotonic()
        while True:
            if rank == victim and how == "leave" and time.monotonic() - start > moment:
                go(how)
            one_collective(group, choice)
    except RuntimeError as error:
        print(json.dumps({"kind": type(error).__name__, "message": str(error), "victim": victim}), flush=True)
        os._exit(7)  # at once: how a rank ends is not what is tested


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
