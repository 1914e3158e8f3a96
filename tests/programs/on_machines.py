"""All-reduces, reduce-scatters, broadcasts, reductions and all-gathers of whole numbers, of a whole group and a part.

Argument: how ranks are spread over machines, e.g. "00111"; empty where the system says that itself.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

COUNTS = (7, 70_001)


def check(group: Any) -> None:
    ranks = np.arange(1, group.size + 1, dtype=np.float32)
    for count in COUNTS:
        ramp = np.arange(count, dtype=np.float32) % 11
        value = ramp * (group.rank + 1)
        group.all_reduce(value)
        assert (value == ramp * ranks.sum()).all(), count
        value = ramp * (group.rank + 1)
        group.all_reduce(value, "avg")
        assert np.allclose(value, ramp * ranks.mean()), count
        everything = np.empty(count * group.size, np.float32)
        group.all_gather(everything, ramp * (group.rank + 1))
        assert (everything == np.outer(ranks, ramp).ravel()).all(), count
        for op in ("sum", "avg", "max"):
            part = np.empty(count, np.float32)
            group.reduce_scatter(part, np.outer(ranks, ramp).ravel() * (group.rank + 1), op)
            whole = {"sum": ranks.sum(), "avg": ranks.mean(), "max": ranks.max()}[op]
            assert np.allclose(part, ramp * (group.rank + 1) * whole), (count, op)
        for root in range(group.size):
            value = ramp * (group.rank + 1)
            group.broadcast(value, root)
            assert (value == ramp * (root + 1)).all(), (count, root)
            value = ramp * (group.rank + 1)
            group.reduce(value, root)
            assert (value == ramp * (ranks.sum() if group.rank == root else group.rank + 1)).all(), (count, root)


def main(machines: str) -> None:
    if machines:
        os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline
    from paceline.observe.trace.event import events
    from paceline.process.current import runtime

    with paceline.init(timeout=60) as group:
        check(group)
        part = group.split(0 if group.rank in (0, group.size - 1, group.size // 2) else 1)
        check(part)
        part.close()
        asked = os.environ.get("PACELINE_ALGORITHM")
        used = {event.algorithm for event in events(runtime().events()) if event.collective == "all_reduce"}
        assert asked is None or asked in used, used


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
