"""What memory allows: the all-reduce of ranks that are threads of one process and share every buffer."""

from __future__ import annotations

from statistics import median
from typing import Any

from paceline import _engine
from paceline.bench.ranks.wire import Message
from paceline.bench.systems import System


class Limit:
    """Measured beside the systems and interleaved with them, in the command's own process.

    One pass of one call: all threads meet, each reduces its block from all buffers into the first, they meet again.
    A burst's time is its median pass and not the mean: what stops a thread now and then is no limit of the memory.
    """

    def __init__(self, ranks: int) -> None:
        self.system = System("limit", "threads", "", buffer="shared")
        self.ranks = ranks
        self._bytes = 0

    def ask(self, **order: Any) -> list[Message]:
        """Does what a rank does with the same order, for all ranks at once."""
        if order["do"] == "prepare":
            self._bytes = order["elements"] * 4
            return [{}]
        calls = int(order.get("calls", 1))
        times, cpu, wrong = _engine.limit_all_reduce(self.ranks, self._bytes, calls)
        if order["do"] == "verify":
            return [{"wrong": wrong, "algorithm": "one fused pass"}]
        return [{"seconds": median(times) * calls / 1e9, "cpu_seconds": cpu / 1e9, "calls": calls}]

    def stop(self, gently: bool = True) -> None:
        """Nothing is left between two orders."""
