"""Named all-reduces in random orders for ever; one rank dies or stops, the others report what they were told.

Arguments: how the victim goes ("kill" or "stop"), how ranks are spread over machines, the policy, a seed, the timeout.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
from typing import Any

import numpy as np
from coordinated_rank import joined, span


def step(coordinator: Any, choice: random.Random) -> None:
    names = [f"layer{number}.weight" for number in range(20)]
    arrays = {name: np.ones(1 + 700 * number, np.float32) for number, name in enumerate(names)}
    choice.shuffle(names)
    requests = [coordinator.all_reduce(name, span(arrays[name]), shape=arrays[name].shape) for name in names]
    for request in requests:
        request.wait()


def main(how: str, machines: str, policy: str, seed: int, timeout: float) -> None:
    group, coordinator = joined(machines, policy, timeout)
    choice, own = random.Random(seed), random.Random(f"{seed} {group.rank}")
    moment = choice.uniform(0, 0.05)
    victim = choice.randrange(group.size)
    end = signal.SIGKILL if how == "kill" else signal.SIGSTOP
    try:
        step(coordinator, own)
        if group.rank == victim:  # all ranks have a coordinator, as they have taken part in a step
            threading.Timer(moment, os.kill, [os.getpid(), end]).start()
        while True:
            step(coordinator, own)
    except RuntimeError as error:
        told = {"kind": type(error).__name__, "message": str(error), "victim": victim}
        told |= {name: getattr(error, name) for name in ("rank", "tensor", "group")}
        print(json.dumps(told), flush=True)
        os._exit(7)  # at once: how a rank ends is not what is tested


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
