"""Shows once what several ranks write alike when Ctrl-C ends them.

Every Python process that is interrupted prints a traceback, line by line. Those of a job's ranks would mix, and most of
them say the same: that the rank waited for the others, and where.
"""

from __future__ import annotations

import hashlib

_BEGINS = b"Traceback (most recent call last):"
_MOST_BYTES = 64 * 1024
"""Bytes of a process's output that are held back at most."""


class Repeats:
    """Holds back what processes write, each from its first traceback to its end."""

    def __init__(self) -> None:
        self.count = 0
        """The number of processes that wrote what another had written."""
        self._held: dict[int, bytes] = {}
        self._shown: set[bytes] = set()

    def hold(self, process: int, data: bytes) -> bytes:
        """Keep whole lines of a process's output, and return those that need not wait."""
        held = self._held.get(process, b"")
        begin = 0 if held else data.find(_BEGINS)
        if begin < 0:
            return data
        self._held[process] = held + data[begin:]
        return data[:begin] + (self.release(process) if len(self._held[process]) > _MOST_BYTES else b"")

    def release(self, process: int) -> bytes:
        """Return what was held back of a process that has ended; nothing if that was shown for another."""
        text = self._held.pop(process, b"")
        digest = hashlib.sha256(text).digest()
        if text and digest in self._shown:
            self.count += 1
            return b""
        self._shown.add(digest)
        return text
