"""Callbacks for operations that finish."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

log = logging.getLogger("paceline")


class Completions:
    """Brings together operations that finish and callbacks that wait for them, whichever comes first.

    Each operation is registered once and reported once. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[int, Callable[[], None]] = {}
        self._reported: set[int] = set()
        self._over = False

    def register(self, operation: int, callback: Callable[[], None]) -> None:
        """Call `callback` when `operation` is reported; at once if it was, or if nothing will be reported any more."""
        with self._lock:
            if operation not in self._reported and not self._over:
                self._waiting[operation] = callback
                return
            self._reported.discard(operation)
        _call(callback)

    def report(self, operations: Iterable[int]) -> None:
        """Note that these operations have finished. Their callbacks run here, or in `register` if that comes later."""
        for operation in operations:
            with self._lock:
                callback = self._waiting.pop(operation, None)
                if callback is None:
                    self._reported.add(operation)
            if callback is not None:
                _call(callback)

    def finish_all(self) -> None:
        """Run all callbacks that still wait, because nothing will be reported any more."""
        with self._lock:
            self._over = True
            waiting, self._waiting = self._waiting, {}
        for callback in waiting.values():
            _call(callback)


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:
        log.exception("a completion callback failed")
