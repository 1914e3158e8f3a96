"""The thread that speaks for a rank whose own threads compute, wait or hang."""

from __future__ import annotations

import threading
from collections.abc import Callable

from paceline.monitor.far_ranks import FarRanks
from paceline.monitor.stalls import Stalls
from paceline.observe.trace.listener import Listener, Name

_CLOSE_SECONDS = 2.0
"""Seconds that closing waits for the thread."""


class Watchdog:
    """Warns of stalls, and answers processes on this machine and ranks on others, in a thread of its own.

    The thread sleeps otherwise, and wakes up three times a minute. name: that of the socket at which it is asked. far:
    the ranks on other machines. answer: returns the answer to a question.
    """

    def __init__(self, name: Name, stalls: Stalls, far: FarRanks, answer: Callable[[str], bytes]) -> None:
        self._stalls, self._far, self._answer = stalls, far, answer
        self.take: Callable[[int, bytes], None] | None = None
        """Is given a rank of this machine and what it leaves for the report; None where this rank makes none."""
        self._listener = Listener(name)
        self._thread = threading.Thread(target=self._run, name="paceline-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and let go of the socket. A thread stuck in writing its warning is left behind."""
        self._listener.stop()
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._listener.close()

    def _run(self) -> None:
        while self._listener.serve(self._answer, self._seconds(), self._far.descriptor, self._take):
            pass

    def _take(self, rank: int, content: bytes) -> None:
        if self.take is None:
            raise ValueError("this rank makes no report")
        self.take(rank, content)

    def _seconds(self) -> float:
        """Do what is due, and return the seconds until something is again."""
        return min(self._far.serve(self._answer), self._stalls.check())
