"""Something befalls rank 2 while ranks 0 and 1 wait for it; they say what they are told, as JSON.

Arguments: the ranks' machines, how they wait ("message", "collective" or "named"), and what befalls rank 2: it is
"killed", it is "stopped", it "leaves" the job, its links are "cut", or it makes a "mistake" in its own call.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import numpy as np

FIELDS = ("rank", "host", "pid")


def main(machines: str, way: str, fate: str) -> None:
    rank = int(os.environ["RANK"])
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"
    os.environ |= {"PACELINE_START_TIMEOUT": "60"}
    import paceline
    from paceline.coordinate import Options, Span, coordinator

    world = paceline.init(timeout=4 if fate == "stopped" else 60)
    named = coordinator(world, Options(policy="board")) if way == "named" else None

    def call(array: Any) -> None:
        if named is not None:
            named.all_reduce("gradient", Span.of(array)).wait()
        elif way == "collective":
            world.all_reduce(array)
        elif rank == 2:
            world.send(array, 0)
        else:
            world.recv(array, 2)

    world.barrier()
    if rank != 2:
        world.send(np.ones(1), 2)
    else:
        for peer in range(2):  # they are past the barrier
            world.recv(np.ones(1), peer)
        match fate:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "leaves":
                sys.exit()
    try:
        call(np.ones(4))
    except RuntimeError as error:
        fields = {name: getattr(error, name) for name in FIELDS}
        print(json.dumps({"kind": type(error).__name__, "message": str(error), **fields}), flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
