"""Whoever makes namespaces may be killed: a small process that outlives it removes them then."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

from paceline.lab import namespaces

_CLOSE_SECONDS = 30.0


class Guard:
    """Waits, in a session of its own, until `close` or the end of this process, and removes the namespaces of `prefix`
    that are still there."""

    def __init__(self, prefix: str) -> None:
        # The pipe ends with this process: what that starts does not inherit it.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", namespaces.__file__, prefix],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Of the small process."""
        return self._process.pid

    def close(self) -> None:
        """Nothing is left to remove."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_SECONDS)
