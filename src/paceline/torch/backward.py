"""Waits at the end of a backward pass, before DDP waits for futures in C++, where no signal would be heard."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress

import torch
import torch.distributed as dist
from torch.autograd import Variable

from paceline._engine import Operation
from paceline.errors import CommunicationError
from paceline.observe.outside import OutsideWaits

_MOST_DROPPED = 1024
"""Works, without large results: far more than a program drops between a forward pass and the backward after it."""


class BackwardWaits:
    """Waits at the end of a backward pass for the operations whose futures were taken during it.

    DDP asks for a future of each bucket during the pass, and waits for them in a callback at the end. From the end of
    the operations until the futures are complete, the time counts in `outside`. Thread-safe.
    """

    def __init__(self, outside: OutsideWaits) -> None:
        self.outside = outside
        self.dropped = deque[dist.Work](maxlen=_MOST_DROPPED)
        """Works that the program has dropped and never asked for their futures. DDP's reducer may hold the C++ half of
        one, as of Join's count in a forward pass: torch can ask that only while the Python half lives."""
        self._lock = threading.Lock()
        self._operations: list[Operation] = []
        self._left = 0
        self._pass = -1
        self._waiting = False

    def begin(self, operation: Operation) -> bool:
        """Note that the future of an operation under way was taken.

        Returns whether that happened in a backward pass; then `end` must be called once the operation is over.
        """
        running = torch._C._current_graph_task_id()
        if running < 0:
            return False
        with self._lock:
            self._left += 1
            first = running != self._pass
            self._pass = running
            if first:
                self._operations = []
            self._operations.append(operation)
            self._stop()  # the thread computes again
        if first:  # DDP asks for its own callback later, so this one runs first
            Variable._execution_engine.queue_callback(self._computed)
        return True

    def end(self) -> None:
        """Note that one of these operations is over."""
        with self._lock:
            self._left -= 1
            if not self._left:
                self._stop()

    def _computed(self, *_: object) -> None:
        with self._lock:
            operations, self._operations = self._operations, []
        for operation in operations:
            # The future tells of a failure; what the handler of a signal raises ends the pass.
            with suppress(CommunicationError):
                operation.wait(-1.0)
        with self._lock:
            if self._left and not self._waiting:
                self._waiting = True
                self.outside.begin()

    def _stop(self) -> None:
        if self._waiting:
            self._waiting = False
            self.outside.end()
