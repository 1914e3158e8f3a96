"""Operations under way that nobody holds any more."""

from __future__ import annotations

import contextlib

from paceline.group.host import Ending


class InFlight:
    """Until such an operation is over the engine uses its memory: here it lives on. Threads may share this."""

    def __init__(self) -> None:
        self._operations: list[Ending] = []

    def add(self, operation: Ending) -> None:
        """Keep it while it is under way. What has ended meanwhile is let go."""
        for one in list(self._operations):
            if one.done():
                with contextlib.suppress(ValueError):  # another thread was quicker
                    self._operations.remove(one)
        if not operation.done():
            self._operations.append(operation)
