"""Warnings about operations that have waited long: which, for whom, and where in the program."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from paceline.frames import users_line
from paceline.trace.seconds import shown

DEFAULT_SECONDS = 60.0
"""Before the first warning; PACELINE_STALL_SECONDS replaces it."""

Wait = tuple[int, float, int, str, Sequence[tuple[str, str]]]
"""As `Engine.waits()` gives them: operation, seconds, waiting thread or 0, description, (who is missing, last in)."""

_NAMED = 4

log = logging.getLogger("paceline")


class Stalls:
    """Warns of an operation once it has waited `seconds` (0: never), and again each time its wait has doubled.

    rank: what to call this rank.
    """

    def __init__(self, waits: Callable[[], Sequence[Wait]], rank: str, seconds: float) -> None:
        self._waits, self._rank, self._seconds = waits, rank, seconds
        self._due: dict[int, float] = {}

    def check(self) -> float | None:
        """Warn of what is due. Returns after how many seconds the next could be, None for never."""
        if not self._seconds:
            return None
        waits = self._waits()
        self._due = {operation: self._due.get(operation, self._seconds) for operation, *_ in waits}
        soonest = self._seconds
        for operation, seconds, thread, what, missing in waits:
            if seconds >= self._due[operation]:
                log.warning(
                    "stalled %s: %s; %s; %s", shown(seconds), what, _missing(missing), _place(thread, self._rank)
                )
                while self._due[operation] <= seconds:
                    self._due[operation] *= 2
            soonest = min(soonest, self._due[operation] - seconds)
        return soonest


def _missing(missing: Sequence[tuple[str, str]]) -> str:
    if not missing:
        return "any rank could end it"
    named = [f"{who}, last heard of in {last}" if last else f"{who}, not heard of yet" for who, last in missing]
    more = [f"{len(named) - _NAMED} more"] if len(named) > _NAMED else []
    return "missing " + " and ".join([*named[:_NAMED], *more])


def _place(thread: int, rank: str) -> str:
    if line := users_line(thread):
        return f"{rank} waits at {line}"
    if line := users_line():
        return f"the main thread of {rank} is at {line}"
    return f"{rank} waits"
