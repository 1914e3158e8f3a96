"""A rank of a job that can be looked at: named gradients in an order of each rank's own, the last rank a little late.

Arguments: steps (0: until somebody ends it), where to write the timeline or "-", and what happens then: "end"; "kill",
the last rank kills itself instead of ending; "withhold", the last rank does not submit one tensor, and sleeps.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time

import numpy as np

import paceline
from paceline import timeline
from paceline.coordinate import Span, coordinator

SIZES = {f"layer{number}.{kind}": size for number in range(6) for kind, size in (("weight", 2000), ("bias", 30))}


def main() -> None:
    steps, where, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    group = paceline.init()
    last = group.rank == group.size - 1
    agreed = coordinator(group)
    if where != "-":
        timeline.start(where, mark_cycles=True)
    chance = random.Random(group.rank)
    arrays = {name: np.ones(size, np.float32) for name, size in SIZES.items()}

    def submit(name: str) -> object:
        array = arrays[name]
        return agreed.all_reduce(name, Span.of(array), "avg", shape=array.shape)

    for _ in range(steps) if steps else itertools.count():
        names = list(SIZES)
        chance.shuffle(names)
        if last:
            time.sleep(0.002)
        requests = [submit(name) for name in names]
        for request in requests:
            request.wait()
    if what == "withhold":
        if last:
            time.sleep(600)
        submit("layer3.weight").wait()
    if what == "kill" and last:
        os.kill(os.getpid(), signal.SIGKILL)
    timeline.stop()
    group.barrier()  # until here every rank can tell the first when it submitted what
    assert all((array == 1).all() for array in arrays.values())
    agreed.close()
    group.close()


main()
