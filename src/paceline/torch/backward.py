"""Waiting at the end of a backward pass, where DDP's reducer waits for futures in C++ and nobody sees it."""

from __future__ import annotations

import threading

import torch
from torch.autograd import Variable

from paceline.observe.outside import OutsideWaits


class BackwardWaits:
    """Tells `outside` of the time from the end of a backward pass until the futures that were taken in it are complete.

    DDP asks for a future of each bucket during the pass, and waits for them in a callback at its end. Thread-safe.
    """

    def __init__(self, outside: OutsideWaits) -> None:
        self.outside = outside
        self._lock = threading.Lock()
        self._left = 0
        self._pass = -1
        self._waiting = False

    def begin(self) -> bool:
        """Somebody takes the future of an operation under way. If this is true, `end` is called once that is over."""
        running = torch._C._current_graph_task_id()
        if running < 0:
            return False
        with self._lock:
            self._left += 1
            first = running != self._pass
            self._pass = running
            self._stop()  # the thread computes again
        if first:  # before DDP asks for its own callback, so that this one comes first
            Variable._execution_engine.queue_callback(self._computed)
        return True

    def end(self) -> None:
        """One of these operations is over."""
        with self._lock:
            self._left -= 1
            if not self._left:
                self._stop()

    def _computed(self, *_: object) -> None:
        with self._lock:
            if self._left and not self._waiting:
                self._waiting = True
                self.outside.begin()

    def _stop(self) -> None:
        if self._waiting:
            self._waiting = False
            self.outside.end()
