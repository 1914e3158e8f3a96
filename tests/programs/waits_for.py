"""Each rank does one thing and stays there; rank 1, whose patience ends first, says whom it was told to wait for.

Arguments: the ranks' machines, and as JSON the groups, as lists of ranks, and what each rank does: "stop" (itself),
"compute", or a call and its arguments: "barrier", "recv" or "send" with a rank of the job, "named" with a name, or
"beside", which computes while it receives from a rank of the job, each after the number of the group in which it is
made. The call of rank 1 has 4 seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import numpy as np

FIELDS = ("rank", "host", "pid", "operation", "group")
PATIENCE = 4.0
"""Seconds."""
MANY = 1_000_000
"""Elements of a message that is not over before it is received."""


def named_in(does: list[Any], groups: list[Any]) -> list[Any]:
    """A coordinator of each group in which a rank names what it does, and of which this rank is a member."""
    from paceline.coordinate import Options, coordinator

    named = {call[1] for call in does if call[0] == "named"}
    return [
        coordinator(group, Options(policy="board")) if number in named and group is not None else None
        for number, group in enumerate(groups)
    ]


def begun(group: Any, coordinator: Any, ranks: list[int], what: str, whom: Any = None) -> Any:
    """The operation that this rank begins."""
    match what:
        case "barrier":
            return group.barrier(async_op=True)
        case "recv" | "beside":
            return group.recv(np.empty(MANY), ranks.index(whom), async_op=True)
        case "send":
            return group.send(np.ones(MANY), ranks.index(whom), async_op=True)
        case "named":
            from paceline.coordinate import Span

            return coordinator.all_reduce(whom, Span.of(np.ones(4, np.float32)))
    raise AssertionError(what)


def main(machines: str, program: dict[str, Any]) -> None:
    rank = int(os.environ["RANK"])
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"
    os.environ |= {"PACELINE_START_TIMEOUT": "60"}
    import paceline

    world = paceline.init(timeout=60)
    members, does = program["groups"], program["does"][rank]
    groups = [world.split(0 if rank in ranks else None) for ranks in members]
    coordinators = named_in(program["does"], groups)
    if rank != 1:
        world.send(np.ones(1), 1)
    else:  # the others are about to begin what they do
        for peer in range(world.size):
            if peer != rank:
                world.recv(np.empty(1), peer)
    if does == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if does == "compute":
        time.sleep(600)
    what, number, *whom = does
    operation = begun(groups[number], coordinators[number], members[number], what, *whom)
    if what == "beside":
        time.sleep(600)
    try:
        operation.wait(PATIENCE if rank == 1 else None)
    except RuntimeError as error:
        fields = {name: getattr(error, name) for name in FIELDS}
        print(json.dumps({"kind": type(error).__name__, "message": str(error), **fields}), flush=True)
    if rank == 1:
        os._exit(0)
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
