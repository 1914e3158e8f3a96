"""The order in which processes end, which their exit codes do not tell to who looks seldom."""

from __future__ import annotations

import os
import select


class Ends:
    """The ends of some processes, in the order in which they happened; of none on a kernel without pidfds."""

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._numbers: dict[int, int] = {}

    def expect(self, number: int, pid: int) -> None:
        """Wait for the end of a child of this process, which `next` will call `number`."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return
        self._numbers[descriptor] = number
        if self._epoll is None:
            self._epoll = select.epoll()
        # What is ready is queued as it becomes so.
        self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLONESHOT)

    def next(self) -> list[int]:
        """Return the numbers of the processes that have ended since the last call, the first one first."""
        return [] if self._epoll is None else [self._numbers[descriptor] for descriptor, _ in self._epoll.poll(0)]

    def close(self) -> None:
        """Expect no more ends. May be called again."""
        for descriptor in self._numbers:
            os.close(descriptor)
        self._numbers.clear()
        if self._epoll is not None:
            self._epoll.close()
            self._epoll = None
