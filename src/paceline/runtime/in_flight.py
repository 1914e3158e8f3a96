"""Operations under way to which the program holds no reference any more."""

from __future__ import annotations

import contextlib

from paceline.group.host import Ending


class InFlight:
    """Keeps abandoned operations alive until they are over, as the engine still uses their buffers. Thread-safe."""

    def __init__(self) -> None:
        self._operations: list[Ending] = []

    def add(self, operation: Ending) -> None:
        """Keep an operation while it is under way, and release those that have ended meanwhile."""
        for one in list(self._operations):
            if one.done():
                with contextlib.suppress(ValueError):  # another thread has removed it
                    self._operations.remove(one)
        if not operation.done():
            self._operations.append(operation)
