"""The speed that memory allows: a collective whose ranks are threads of one process that share every buffer."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from ctypes import c_int64, c_void_p
from statistics import median
from typing import Any

import numpy as np

from paceline import _engine
from paceline_bench import instruments
from paceline_bench.ranks.case import REDUCING, Buffers, Case
from paceline_bench.ranks.pattern import Array
from paceline_bench.ranks.wire import Message
from paceline_bench.systems import System

WORK = {"all_reduce": "one fused pass", "sendrecv": "memcpy"}
"""The work of a thread in a pass of each collective."""
_HUGE_PAGE = 2 << 20
_UNTIMED = 3
"""Passes of a burst before those that are timed."""


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

    def ask(self, **order: Any) -> list[Message]:
        """Carry out an order as a rank does, for all ranks at once."""
        orders: dict[str, Callable[..., Message]]
        orders = {"prepare": self._prepare, "verify": self._verify, "burst": self._burst}
        return [orders[order.pop("do")](**order)]

    def stop(self, gently: bool = True) -> None:
        """Do nothing: nothing runs between two orders."""

    def _prepare(self, collective: str, dtype: str, op: str, elements: int, **more: object) -> Message:
        cases = [Case(collective, dtype, op, elements, 0, rank, self.ranks) for rank in range(self.ranks)]
        self._buffers = [Buffers(case, _memory) for case in cases]
        self._reduces, self._work = collective in REDUCING, WORK[collective]
        return {}

    def _verify(self, seeds: list[int]) -> Message:
        wrong = 0
        for seed in seeds:
            for one in self._buffers:
                one.load(seed)
            self._time(0, 1)
            wrong += sum(one.count_wrong(seed) for one in self._buffers[: 1 if self._reduces else None])
        for one in self._buffers:
            one.clear()
        return {"wrong": wrong, "algorithm": self._work}

    def _burst(self, calls: int) -> Message:
        times, cpu = self._time(_UNTIMED, calls)
        return {"seconds": median(times) * calls / 1e9, "cpu_seconds": cpu / 1e9, "calls": _UNTIMED + calls}

    def _time(self, untimed: int, passes: int) -> tuple[list[int], int]:
        sources, targets, times = (c_void_p * self.ranks)(), (c_void_p * self.ranks)(), (c_int64 * passes)()
        for rank, one in enumerate(self._buffers):
            sources[rank], targets[rank] = one.source.ctypes.data, one.target.ctypes.data
        reduce = _engine.FUNCTIONS["reduce"] if self._reduces else None
        elements = self._buffers[0].source.size
        cpu = instruments.time_passes(reduce, self.ranks, sources, targets, elements, untimed, passes, times)
        return list(times), cpu


def _memory(size: int) -> Array:
    """Return uint8[size] on huge pages if the kernel has some."""
    pages = mmap.mmap(-1, size + _HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_HUGEPAGE)
    found = np.frombuffer(pages, np.uint8)
    begin = -found.ctypes.data % _HUGE_PAGE
    return found[begin : begin + size]
