"""Writes to a descriptor whose reader may stall."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from paceline.launch.write_all import write_all

_PIECE = 64 * 1024
"""Bytes that are written at once."""


class Outlet:
    """Writes to a descriptor from a thread of its own, so that a reader that stalls holds up nobody else.

    moved: called in that thread whenever something was written, until `close`. The descriptor is duplicated; the
    duplicate is closed once everything was written after `close`. What nobody reads any more is dropped silently.
    """

    def __init__(self, target: int, moved: Callable[[], object] = lambda: None) -> None:
        try:
            self._target = os.dup(target)
        except OSError:  # this process was started without it
            self._target = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        self._moved = moved
        self._waiting = bytearray()
        self._closing = False
        self._changed = threading.Condition()
        # It may wait for a reader for ever, which must not keep this process from ending.
        threading.Thread(target=self._run, name="paceline-outlet", daemon=True).start()

    @property
    def waiting(self) -> int:
        """The number of bytes that are not yet written."""
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        """Write `data` after what was given before. It returns at once, and any thread may call it."""
        with self._changed:
            self._waiting += data
            self._changed.notify()

    def close(self) -> None:
        """Write nothing more than what was given before. It returns at once."""
        with self._changed:
            self._closing, self._moved = True, lambda: None
            self._changed.notify()

    def _run(self) -> None:
        while piece := self._next():
            write_all(self._target, piece)
            with self._changed:
                del self._waiting[: len(piece)]
                self._moved()
        os.close(self._target)

    def _next(self) -> bytes:
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return bytes(self._waiting[:_PIECE])
