"""Removes a lab's namespaces if the process that made them is killed: a small process outlives it and does so."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

from paceline.lab import namespaces

_CLOSE_SECONDS = 30.0
"""Seconds that the guard has to end once it is told to."""


class Guard:
    """A process in a session of its own that waits for `close` or the end of this process.

    It then removes the namespaces that still exist and whose names begin with `prefix`.
    """

    def __init__(self, prefix: str) -> None:
        # The pipe closes with this process, because the processes that it starts do not inherit it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", namespaces.__file__, prefix],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The pid of the guard's process."""
        return self._process.pid

    def close(self) -> None:
        """End the guard, after the namespaces were removed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECONDS)
