"""The speed that memory allows: a collective whose ranks are threads of one process that share every buffer."""

from __future__ import annotations

from statistics import median
from typing import Any

from paceline import _engine
from paceline_bench.ranks.wire import Message
from paceline_bench.systems import System

PASSES = {
    "all_reduce": (_engine.limit_all_reduce, "one fused pass"),
    "sendrecv": (_engine.limit_sendrecv, "memcpy"),
}
"""The function that measures each collective, and the work of a thread in it."""


class Limit:
    """A session measured in the command's own process, interleaved with the systems.

    In one pass of a call all threads meet, each reduces its block from all buffers into the first, or copies its buffer
    to the next thread's, and they meet again.
    A burst's time is its median pass and not the mean, because an occasional stop of a thread is not a limit of the
    memory.
    """

    def __init__(self, ranks: int) -> None:
        self.system = System("limit", "threads", "", buffer="shared")
        self.ranks = ranks
        self._bytes = 0

    def ask(self, **order: Any) -> list[Message]:
        """Carry out an order as a rank does, for all ranks at once."""
        if order["do"] == "prepare":
            self._bytes = order["elements"] * 4
            self._measure, self._algorithm = PASSES[order["collective"]]
            return [{}]
        calls = int(order.get("calls", 1))
        times, cpu, wrong = self._measure(self.ranks, self._bytes, calls)
        if order["do"] == "verify":
            return [{"wrong": wrong, "algorithm": self._algorithm}]
        return [{"seconds": median(times) * calls / 1e9, "cpu_seconds": cpu / 1e9, "calls": calls}]

    def stop(self, gently: bool = True) -> None:
        """Do nothing: nothing runs between two orders."""
