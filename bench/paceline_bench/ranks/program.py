"""A measured rank, which connects to the command and carries out its orders until it is ordered to stop.

Between two orders it waits on a socket, outside the measured system, and uses no CPU.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import socket
import threading
import time
import traceback
from itertools import repeat
from pathlib import Path

from . import segments, wire
from .adapter import Adapter, Call, Unsupported
from .case import Buffers, Case
from .gradients import Gradients
from .wire import Closed, Lines, Message


class Rank:
    """Answers each order with one message: the result, `unsupported`, or `error`."""

    def __init__(self) -> None:
        self._adapter: Adapter | None = None
        self._buffers: Buffers | None = None
        self._call: Call | None = None

    def answer(self, order: Message) -> Message:
        """Carry out one order. `order["do"]` names the method, of this class or of the adapter."""
        try:
            name = f"do_{order.pop('do')}"
            method = getattr(self, name, None) or getattr(self._adapter, name)
            reply: Message = method(**order)
        except Unsupported as reason:
            return {"unsupported": str(reason)}
        except Exception as error:
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}
        return reply

    def do_start(self, adapter: str, options: dict[str, str], timeout: float) -> Message:
        """Import the system and form the process group."""
        module, _, name = adapter.partition(":")
        if module.startswith("."):
            found = importlib.import_module(module, __package__)
        else:
            found = importlib.import_module(module)
        self._adapter = system = getattr(found, name)(options, timeout)
        gc.collect()
        gc.disable()
        return {"rank": system.rank, "size": system.size, "host": os.uname().nodename, "about": system.about}

    def do_prepare(self, collective: str, dtype: str, op: str, elements: int, root: int, codec: str = "") -> Message:
        """Allocate the buffers of one case; those of the previous case are freed first."""
        self._call = self._buffers = None
        assert self._adapter is not None
        case = Case(collective, dtype, op, elements, root, self._adapter.rank, self._adapter.size, codec)
        self._buffers = (Gradients if codec else Buffers)(case, self._adapter.memory)
        self._bind()
        return {}

    def do_verify(self, seeds: list[int]) -> Message:
        """Run the case once per seed on known data, and return the number of wrong elements.

        The buffers are cleared afterwards, for the timing.
        """
        assert self._adapter is not None and self._buffers is not None
        wrong = 0
        for seed in seeds:
            self._buffers.load(seed)
            self._bind()
            assert self._call is not None
            self._buffers.take(self._call())
            wrong += self._buffers.count_wrong(seed)
        algorithm = self._adapter.algorithm()
        self._buffers.clear()
        self._bind()
        return {"wrong": wrong, "algorithm": algorithm}

    def _bind(self) -> None:
        assert self._adapter is not None and self._buffers is not None
        self._call = self._adapter.bind(self._buffers.case, self._buffers.source, self._buffers.target)

    def do_burst(self, calls: int) -> Message:
        """Time `calls` calls, and return wall seconds and this process's CPU seconds for all of them.

        "calls" counts all calls made, with the untimed ones: one, and a tenth of the others.
        """
        assert self._adapter is not None and self._call is not None
        call, before = self._call, 1 + calls // 10
        for _ in repeat(None, before):
            call()
        self._adapter.barrier()
        cpu = time.process_time()
        begin = time.perf_counter()
        for _ in repeat(None, calls):
            call()
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "cpu_seconds": time.process_time() - cpu, "calls": before + calls}

    def do_pin(self, cpus: list[int]) -> Message:
        """Bind every thread of rank r to the CPU `cpus[r]`."""
        assert self._adapter is not None
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cpus[self._adapter.rank]})
        return {}

    def do_meet(self, late: int, seconds: float) -> Message:
        """Make one call, which the rank `late` starts `seconds` later; return its wall and CPU seconds here."""
        assert self._adapter is not None and self._call is not None
        if self._adapter.rank == late:
            time.sleep(seconds)
        cpu, begin = time.process_time(), time.perf_counter()
        self._call()
        return {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}

    def do_stop(self) -> Message:
        """Leave the process group; the process ends after this answer."""
        self._call = self._buffers = None
        if self._adapter is not None:
            self._adapter.close()
            self._adapter = None
        return {}


def _exit_with(connection: socket.socket) -> None:
    """End this process as soon as the command is gone, even if it is stuck in a collective."""
    poller = select.poll()
    poller.register(connection, select.POLLRDHUP)
    poller.poll()
    segments.remove(segments.mapped([os.getpid()]))  # these belong to this job, which ends
    os._exit(1)


def main(address: str) -> None:
    """Serve the command that listens at the Unix socket `address`."""
    connection = wire.connect(address)
    threading.Thread(target=_exit_with, args=(connection,), daemon=True).start()
    lines, rank, stopped = Lines(connection), Rank(), False
    lines.send({"pid": os.getpid()})
    while not stopped:
        try:
            order = lines.receive()
        except Closed:
            return
        stopped = order["do"] == "stop"
        lines.send(rank.answer(order))
