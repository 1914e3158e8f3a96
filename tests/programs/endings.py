"""Rank 0 of two begins every collective and ends it, each in a group of its own; rank 1 comes late to all.

Late ranks hear of the end, and memory of a call that has ended is its owner's alone.

Arguments: where the data lie, `arena`, `private` or `apart` (on two machines); how rank 0 ends: `argument` (it names
memory that is no good, and tries again), `timeout`, `abort`, `close`, `leave` (before it has begun), `death`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from paceline.errors import CommunicationError

Array = NDArray[np.float32]
Start = Callable[[Any, Array, bool], Any]
"""Starts a call in a group with this memory, whose first half is given and the second got, where it needs two."""

COUNTS = (4, 2048, 1 << 18)
STARTS: dict[str, Start] = {
    "all_reduce": lambda group, x, later: group.all_reduce(x, async_op=later),
    "reduce": lambda group, x, later: group.reduce(x, 0, async_op=later),
    "all_gather": lambda group, x, later: group.all_gather(x[len(x) // 2 :], x[: len(x) // 4], async_op=later),
    "reduce_scatter": lambda group, x, later: group.reduce_scatter(
        x[3 * len(x) // 4 :], x[: len(x) // 2], async_op=later
    ),
    "all_to_all": lambda group, x, later: group.all_to_all(x[len(x) // 2 :], x[: len(x) // 2], async_op=later),
    "gather": lambda group, x, later: group.gather(
        x[: len(x) // 4], x[len(x) // 2 :] if group.rank == 0 else None, 0, async_op=later
    ),
    "broadcast": lambda group, x, later: group.broadcast(x, 1, async_op=later),
    "barrier": lambda group, x, later: group.barrier(async_op=later),
    "recv": lambda group, x, later: (
        group.recv(x, 1, async_op=later) if group.rank == 0 else group.send(x, 0, async_op=later)
    ),
}
LARGE_ONLY: dict[str, Start] = {  # who gives data and gets none need not wait if they are few
    "broadcast from the root": lambda group, x, later: group.broadcast(x, 0, async_op=later),
    "send": lambda group, x, later: (
        group.send(x, 1, async_op=later) if group.rank == 0 else group.recv(x, 0, async_op=later)
    ),
}
ONE_WAY = ("reduce", "gather", "broadcast", "recv")
"""What rank 1 gives and rank 0 gets: rank 1 may have done its part although rank 0 had left."""
FREE, USED = 1, 77


def no_good(x: Array) -> Array:
    frozen = x.copy()
    frozen.flags.writeable = False
    return frozen


def end(group: Any, ending: str, operation: Any) -> None:
    if ending == "timeout":
        with pytest.raises(CommunicationError, match="reached its timeout"):
            operation.wait(0.01)
    elif ending == "abort":
        group.abort("enough")
    else:
        group.close()


def chosen(way: str, ending: str) -> list[tuple[str, Start, int]]:
    """The calls, and for how many numbers."""
    cases = [(name, start, count) for count in COUNTS for name, start in STARTS.items()]
    cases += [(name, start, COUNTS[-1]) for name, start in LARGE_ONLY.items()]
    left_out = {"leave": ONE_WAY, "argument": (*ONE_WAY, "barrier", "recv", "send", "broadcast from the root")}.get(
        ending, ()
    )
    if way == "apart":
        left_out = (*left_out, "broadcast from the root")  # all of it may be on its way at once
    return [case for case in cases if case[0] not in left_out]


def main(way: str, ending: str) -> None:
    rank = int(os.environ["RANK"])
    if way == "apart":
        os.environ["PACELINE_MACHINE"] = f"machine-{rank}"
    import paceline

    world = paceline.init(timeout=60)
    calls = []
    for name, start, count in chosen(way, ending):
        group = world.split(0)
        memory = np.empty(count, np.float32) if way != "arena" else paceline.empty(count)
        memory.fill(FREE)
        calls.append((name, start, group, memory))
    begun = []
    if rank == 0:
        for _, start, group, memory in calls:
            if ending == "argument":
                with pytest.raises((ValueError, TypeError, BufferError)):
                    start(group, no_good(memory), True)
                continue
            begun.append(None if ending == "leave" else start(group, memory, True))
            if ending != "death":
                end(group, ending, begun[-1])
                memory.fill(USED)
        world.send(np.zeros(1), 1)
        if ending == "death":
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        world.recv(np.zeros(1), 0)
    for _, start, group, memory in calls:
        if ending == "argument":  # the other rank hears of it, and so does the next call of the one that raised
            with pytest.raises(CommunicationError, match="ranks disagree"):
                start(group, memory, False)
        elif rank == 1:
            # What a rank gave before it died may be all that this one needs.
            with suppress(CommunicationError) if ending == "death" else pytest.raises(CommunicationError):
                start(group, memory, False)
            memory.fill(USED)
    if ending == "death":
        with pytest.raises(CommunicationError):
            world.barrier()
        return
    world.barrier()
    assert ending == "argument" or all((memory == USED).all() for *_, memory in calls)


if __name__ == "__main__":
    main(*sys.argv[1:])
