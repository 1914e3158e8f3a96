"""Asks other ranks of this machine where in their program they are."""

from __future__ import annotations

import os
from collections.abc import Callable

from paceline.observe.trace.listener import Name

_PATIENCE = 0.5
"""Seconds that a rank has to answer."""
_LONGEST_LINE = 8192
"""Bytes of the longest answer that is read."""

Locate = Callable[[str], tuple[int, int] | None]
"""Returns the rank in the job and the process id of the rank that peers call so; None if it is not known."""


class Whereabouts:
    """Asks the ranks of the job whose first group has the channel `job`."""

    def __init__(self, job: int, locate: Locate) -> None:
        self._job, self._locate = job, locate

    def __call__(self, who: str) -> str:
        """In words, where the rank that peers call `who` is now; "" for a rank that is not on this machine."""
        from paceline.observe.trace.asking import Silence, question

        found = self._locate(who)
        if found is None:
            return ""
        rank, pid = found
        try:
            name = Name(os.geteuid(), self._job, rank, pid)
            answer = question(name, "line", bytes.decode, _PATIENCE, _LONGEST_LINE)
        except OSError:  # there may be no such sockets here
            return ""
        if isinstance(answer, Silence):
            return f"which {answer.reason}"
        return f"now at {answer}" if answer else ""
