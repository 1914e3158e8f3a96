"""Waits for communication that the engine cannot see."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class OutsideWaits:
    """The time that callers wait for communication outside the engine: for a future, or while links are measured.

    inside_ns: the nanoseconds that callers have waited in the engine so far; such a wait that falls into a wait outside
    is counted there alone. Thread-safe; waits of several threads at the same time count as one.
    """

    def __init__(self, inside_ns: Callable[[], int]) -> None:
        self._inside_ns = inside_ns
        self._lock = threading.Lock()
        self._waiting = 0
        self._since = self._inside_before = 0
        self._total = 0

    def begin(self) -> None:
        """Count from now on that a caller waits."""
        inside = self._inside_ns()
        with self._lock:
            if not self._waiting:
                self._since, self._inside_before = time.monotonic_ns(), inside
            self._waiting += 1

    def end(self) -> None:
        """Count that it waits no longer."""
        inside = self._inside_ns()
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                self._total += self._so_far(inside)

    @contextmanager
    def span(self) -> Iterator[None]:
        """Count that the caller waits inside this context."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    def total_ns(self) -> int:
        """The nanoseconds of all waits until now, with those that are not over."""
        inside = self._inside_ns()
        with self._lock:
            return self._total + (self._so_far(inside) if self._waiting else 0)

    def _so_far(self, inside: int) -> int:
        return max(0, time.monotonic_ns() - self._since - max(0, inside - self._inside_before))
