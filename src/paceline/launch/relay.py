"""Passes output on from the processes that write it to its readers, and waits for neither."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import selectors
import sys
from collections.abc import Iterator
from typing import TextIO

from paceline.launch.outlet import Outlet

MOST_WAITING = 256 * 1024
"""Bytes that may wait for one reader before nothing more is read for it."""
_PIPE_BYTES = 64 * 1024
"""Bytes that a pipe or a terminal holds at most if it does not say how many."""


class Relay:
    """The descriptors that a listener reads, its sources, and those that it writes, its targets.

    A source is not read while too much waits for its target, so that a process writes as fast as its output is read;
    nobody else waits for that reader. `read` and `resumed` are called for keys of `selector` whose data is `listener`.
    """

    def __init__(self, selector: selectors.BaseSelector, listener: object) -> None:
        self._selector, self._listener = selector, listener
        self._outlets: dict[int, Outlet] = {}
        self._targets: dict[int, int] = {}  # of each source
        self._held: set[int] = set()  # sources that wait for the reader of their target
        self._left: dict[int, int] = {}  # bytes that a source may still give
        self._room = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        selector.register(self._room, selectors.EVENT_READ, listener)

    def add(self, source: int, target: int) -> None:
        """Read `source`, which belongs to the relay from now on, for as long as `target` takes what is read."""
        self._targets[source] = target
        self._selector.register(source, selectors.EVENT_READ, self._listener)

    def read(self, source: int) -> bytes | None:
        """Return what has arrived at `source`, b"" at its end, or None while its target takes nothing more.

        At its end the source is closed.
        """
        if self._outlet(self._targets[source]).waiting > MOST_WAITING:
            self._selector.unregister(source)
            self._held.add(source)
            return None
        try:
            data = os.read(source, 65536) if self._left.get(source, 1) > 0 else b""
        except OSError:  # the last writer of a terminal has closed it
            data = b""
        if not data:
            self.remove(source)
        elif source in self._left:
            self._left[source] -= len(data)
        return data

    def resumed(self, descriptor: int) -> bool:
        """Return whether `descriptor` is the one that wakes the selector when readers have gone on; sources that waited
        for them are then read again.
        """
        if descriptor != self._room:
            return False
        os.eventfd_read(self._room)
        for source in [each for each in self._held if self._outlet(self._targets[each]).waiting <= MOST_WAITING]:
            self._held.remove(source)
            self._selector.register(source, selectors.EVENT_READ, self._listener)
        return True

    def write(self, target: int, data: bytes) -> None:
        """Write `data` to `target` once its reader takes it. It returns at once, and any thread may call it."""
        if data:
            self._outlet(target).write(data)

    def remove(self, source: int) -> None:
        """Close a source, whatever it still holds."""
        if source not in self._held:
            self._selector.unregister(source)
        self._held.discard(source)
        self._left.pop(source, None)
        del self._targets[source]
        os.close(source)

    def last(self) -> None:
        """Read from each source at most what it may hold now: the job has ended, and nobody else is waited for."""
        for source in self._targets:
            self._left[source] = _capacity(source)

    @property
    def reading(self) -> bool:
        """True if a source is still open."""
        return bool(self._targets)

    @property
    def held_up(self) -> bool:
        """True if a source waits for a reader."""
        return bool(self._held)

    @property
    def writing(self) -> bool:
        """True if something still waits for its reader."""
        return any(outlet.waiting for outlet in self._outlets.values())

    def close(self) -> None:
        """Close everything. What still waits for its reader is lost when this process ends."""
        for source in list(self._targets):
            self.remove(source)
        for outlet in self._outlets.values():
            outlet.close()
        self._selector.unregister(self._room)
        os.close(self._room)

    @contextlib.contextmanager
    def spoken(self) -> Iterator[None]:
        """Let what this process itself prints on its stderr take the same way inside this context.

        A `sys.stderr` that was replaced by something else stays as it is.
        """
        before = sys.stderr
        if _number(before) == 2:
            sys.stderr = _Spoken(self, before.encoding)
        try:
            yield
        finally:
            sys.stderr = before

    def _outlet(self, target: int) -> Outlet:
        if target not in self._outlets:
            self._outlets[target] = Outlet(target, lambda: os.eventfd_write(self._room, 1))
        return self._outlets[target]


class _Spoken(io.TextIOBase):
    """This process's stderr."""

    def __init__(self, relay: Relay, encoding: str) -> None:
        self._relay, self._encoding = relay, encoding

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 2

    def isatty(self) -> bool:
        return os.isatty(2)

    def write(self, text: str, /) -> int:
        self._relay.write(2, text.encode(self._encoding, "backslashreplace"))
        return len(text)


def _number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):  # no stderr, or one that has no descriptor
        return None


def _capacity(source: int) -> int:
    try:
        return fcntl.fcntl(source, fcntl.F_GETPIPE_SZ)
    except OSError:
        return _PIPE_BYTES
