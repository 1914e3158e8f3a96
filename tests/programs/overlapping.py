"""Rank 2 dies, rank 1 hears of it in a group with it and goes, rank 0 waits for rank 1 in another group.

Arguments: how rank 1 goes ("leaves", as a script ends that raises, or "dies" at once), and the ranks' machines.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np

FIELDS = ("rank", "host", "pid", "operation", "tensor", "group")


def main(how: str, machines: str) -> None:
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline
    from paceline.errors import PeerLost

    world = paceline.init(timeout=30)
    first = world.split(0 if world.rank < 2 else None)
    second = world.split(0 if world.rank > 0 else None)
    if world.rank == 2:
        for peer in (0, 1):  # both have their groups then
            world.recv(np.empty(1, np.float32), peer)
        os.kill(os.getpid(), signal.SIGKILL)
    world.send(np.ones(1, np.float32), 2)
    group = second if world.rank == 1 else first
    assert group is not None
    try:
        group.all_reduce(np.ones(1000, np.float32))
    except PeerLost as error:
        if world.rank == 1 and how == "dies":
            os._exit(1)
        if world.rank == 0:
            fields = {name: getattr(error, name) for name in FIELDS}
            print(json.dumps({"kind": type(error).__name__, "message": str(error), **fields}), flush=True)
        raise


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
