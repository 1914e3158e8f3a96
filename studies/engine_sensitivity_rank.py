"""A rank of `engine_sensitivity.py`: for every turn it forks a process that joins a job and times what it is told.

The arguments are the path of the engine and the rank's number. Each line of input is a turn, `{"port": ...,
"constants": {name: [type, factor]}, "calls": [...], "burst": seconds, "busy": ...}`; each line of output is the answer,
the seconds that each call took.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

# The engine whose constants can be changed has to be loaded before the package loads its own.
SPEC = importlib.util.spec_from_file_location("paceline._engine", sys.argv[1])
assert SPEC is not None and SPEC.loader is not None
ENGINE = importlib.util.module_from_spec(SPEC)
sys.modules["paceline._engine"] = ENGINE
SPEC.loader.exec_module(ENGINE)

import paceline  # noqa: E402
from paceline.coordinate.coordinator import coordinator  # noqa: E402
from paceline.coordinate.span import Span  # noqa: E402
from paceline.process import init  # noqa: E402

LIBRARY = ctypes.CDLL(sys.argv[1])
KINDS = {"x": ctypes.c_int64, "m": ctypes.c_size_t, "j": ctypes.c_uint, "i": ctypes.c_int, "d": ctypes.c_double}

BURSTS, WARM_UP, FIRST_CALLS = 3, 25, 20
"""Bursts of a measurement; calls before them, more than the method tuner needs; and calls where those are measured."""


def set_constant(name: str, kind: str, factor: float) -> None:
    """Multiply a constant of the engine, or the distance from 1 of a ratio (kind "d", between 0.5 and 2)."""
    symbol = f"_ZN8paceline11calibration{len(name)}{name}E"
    cell = KINDS[kind].in_dll(LIBRARY, symbol)
    ratio = kind == "d" and 0.5 < cell.value < 2
    value = 1 + (cell.value - 1) * factor if ratio else cell.value * factor
    cell.value = value if kind == "d" else max(1, round(value))


def calls(group: Any, what: str) -> Callable[[], object]:
    """Return the call that `what` names: "KIND BYTES", where the bytes are those of a rank's array."""
    kind, _, size = what.partition(" ")
    count = max(1, int(size) // 4)
    array = np.zeros(count, np.float32)
    if kind == "all_reduce":
        return lambda: group.all_reduce(array)
    if kind == "in_place":
        shared = paceline.empty(count, np.float32)
        shared[:] = 0
        return lambda: group.all_reduce(shared)
    if kind == "async":
        return lambda: group.all_reduce(array, async_op=True).wait()
    if kind == "encoded":
        return lambda: group.all_reduce(array, codec="int8")
    if kind == "reduce":
        return lambda: group.reduce(array, root=0)
    if kind == "all_gather":
        every = np.zeros((group.size, count), np.float32)
        return lambda: group.all_gather(every, array)
    if kind == "all_to_all":
        count = max(group.size, count // group.size * group.size)
        source, target = np.zeros(count, np.float32), np.zeros(count, np.float32)
        return lambda: group.all_to_all(target, source)
    if kind == "sendrecv":
        sent, received = paceline.empty(count, np.float32), paceline.empty(count, np.float32)
        sent[:] = 0
        return lambda: to_the_next(group, sent, received)
    if kind == "named":
        return named(group, int(size))
    raise ValueError(what)


def to_the_next(group: Any, sent: Any, received: Any) -> None:
    """Send to the next rank of a ring and receive from the previous one."""
    under_way = group.send(sent, (group.rank + 1) % group.size, async_op=True)
    group.recv(received, (group.rank - 1) % group.size)
    under_way.wait()


def named(group: Any, largest: int) -> Callable[[], object]:
    """A step of 48 named tensors of up to `largest` bytes, each rank in an order of its own."""
    agreed = coordinator(group)
    sizes = [largest if n % 12 == 0 else max(4, largest >> (n % 5 + 2)) for n in range(48)]
    arrays = [np.zeros(size // 4, np.float32) for size in sizes]
    order = list(range(len(arrays)))
    order = order[group.rank * 7 :] + order[: group.rank * 7]

    def step() -> None:
        requests = [agreed.all_reduce(f"tensor {n}", Span.of(arrays[n])) for n in order]
        for request in requests:
            request.wait()

    return step


def measure(group: Any, what: str, burst: float) -> float:
    """Return the seconds that a call takes on the slowest rank: the median burst."""
    first, _, rest = what.partition(" ")
    call = calls(group, rest if first == "first" else what)
    group.barrier()
    begin = time.perf_counter()
    if first == "first":
        for _ in range(FIRST_CALLS):
            call()
        return slowest(group, (time.perf_counter() - begin) / FIRST_CALLS)
    call()
    each = slowest(group, time.perf_counter() - begin)
    for _ in range(WARM_UP if each < 0.02 else 1):
        begin = time.perf_counter()
        call()
        each = time.perf_counter() - begin
    number = max(1, int(burst / slowest(group, each)))
    bursts = []
    for _ in range(BURSTS):
        group.barrier()
        begin = time.perf_counter()
        for _ in range(number):
            call()
        bursts.append((time.perf_counter() - begin) / number)
    return slowest(group, statistics.median(bursts))


def slowest(group: Any, seconds: float) -> float:
    cell = np.array([seconds])
    group.all_reduce(cell, "max")
    return float(cell[0])


def turn(told: dict[str, Any]) -> dict[str, float]:
    os.environ["MASTER_PORT"] = str(told["port"])
    for name, (kind, factor) in told["constants"].items():
        set_constant(name, kind, factor)
    if told["busy"] == "thread":
        threading.Thread(target=spin, daemon=True).start()
    with init.init(timeout=60) as group:
        return {what: measure(group, what, told["burst"]) for what in told["calls"]}


def spin() -> None:
    while True:
        pass


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                answer = json.dumps(turn(json.loads(line)))
            except BaseException:
                traceback.print_exc()
                answer = "null"
            print(answer, flush=True)
            return  # so that this rank takes leave of the others
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
