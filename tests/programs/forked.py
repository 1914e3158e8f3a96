"""One rank: a forked child is no rank. Every call there is refused at once, and the parents never notice.

Arguments: how ranks are spread over machines; how the child ends, by `exit` or `_exit`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

DEADLINE = 60  # seconds for a child
CALLS = 50  # of the parents, while the children try theirs
Attempts: TypeAlias = dict[str, Callable[[], object]]


class Home:
    """What a child inherits beside groups."""

    def __init__(self, runtime: Any, allocated: Any) -> None:
        self.runtime, self.allocated = runtime, allocated


def calls(group: Any, part: Any, named: Any, under_way: Any, request: Any, home: Home) -> Attempts:
    from paceline.coordinate import Span

    few, many = np.ones(8, np.float32), np.ones(1 << 20, np.float32)
    out, other = np.zeros(8 * group.size, np.float32), (group.rank + 1) % group.size
    span = Span.of(few)
    shared = home.allocated
    return {
        "all_reduce": lambda: group.all_reduce(few),
        "all_reduce of much": lambda: group.all_reduce(many),
        "all_reduce in the arena": lambda: group.all_reduce(shared),
        "all_reduce of columns": lambda: group.all_reduce(many.reshape(1 << 10, 1 << 10)[:, 1]),
        "async all_reduce": lambda: group.all_reduce(few, async_op=True),
        "broadcast": lambda: group.broadcast(few),
        "reduce": lambda: group.reduce(few),
        "all_gather": lambda: group.all_gather(out, few),
        "reduce_scatter": lambda: group.reduce_scatter(few, out),
        "all_to_all": lambda: group.all_to_all(out.copy(), out),
        "gather": lambda: group.gather(few, out if group.rank == 0 else None),
        "scatter": lambda: group.scatter(few, out if group.rank == 0 else None),
        "barrier": group.barrier,
        "send": lambda: group.send(few, other),
        "recv": lambda: group.recv(few, other),
        "async recv": lambda: group.recv(few, other, async_op=True),
        "sendrecv": lambda: group.sendrecv(few, other, few.copy(), other),
        "split": lambda: group.split(0),
        "abort": group.abort,
        "wait": under_way.wait,
        "done": under_way.done,
        "in a part": lambda: part.all_reduce(few),
        "named all_reduce": lambda: named.all_reduce("x", span),
        "named all_gather": lambda: named.all_gather("y", span),
        "join": named.join,
        "wait for a request": request.wait,
        "whether a request is done": request.done,
        "allocate": lambda: home.runtime.allocate(10),
    }


def try_in_a_child(parent: int, attempts: Attempts, closing: list[Callable[[], object]]) -> None:
    from paceline.errors import CommunicationError

    sentence = f"this process was forked from process {parent}, whose Paceline links it cannot use"
    signal.alarm(DEADLINE)
    for call in attempts.values():
        with pytest.raises(CommunicationError, match=sentence):
            call()
    for close in closing:
        close()


def main(machines: str, ending: str) -> None:
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline
    from paceline.coordinate import Coordinator, Options, Span
    from paceline.process.current import runtime

    group = paceline.init(timeout=60)
    part = group.split(0)
    assert part is not None
    named = Coordinator(runtime(), group.native, Options(), 60)
    shared = paceline.empty(1 << 16, np.float32)
    word, data = np.zeros(4), np.ones(8, np.float32)
    under_way = group.recv(word, (group.rank + 1) % group.size, tag=7, async_op=True)
    request = named.all_reduce("later" if group.rank == 0 else "not yet", Span.of(data))

    def work() -> None:
        few = np.ones(8, np.float32)
        shared[:] = 1
        group.all_reduce(few)
        group.all_reduce(shared)
        part.barrier()
        assert (few == group.size).all() and (shared == group.size).all()

    work()
    attempts = calls(group, part, named, under_way, request, Home(runtime(), shared))
    parent, child = os.getpid(), os.fork()
    if child == 0:
        try:
            try_in_a_child(parent, attempts, [named.close, part.close, group.close])
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        if ending == "_exit":
            os._exit(0)
        sys.exit(0)
    for _ in range(CALLS):
        work()
    assert os.waitpid(child, 0)[1] == 0
    work()
    group.send(np.full(4, 3.0), (group.rank - 1) % group.size, tag=7)
    under_way.wait()
    assert (word == 3).all()
    again = named.all_reduce("not yet" if group.rank == 0 else "later", Span.of(data))
    request.wait()
    again.wait()
    named.close()
    group.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
