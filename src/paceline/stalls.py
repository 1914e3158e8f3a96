"""Warnings about operations that have waited long: which, for whom, and where in the program."""

from __future__ import annotations

import logging
import threading
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

    rank: what to call this rank. whereabouts: where a rank that is missing, by its name, is now, in words or not at
    all; it may take its time, and is asked in a thread of its own.
    """

    def __init__(
        self,
        waits: Callable[[], Sequence[Wait]],
        rank: str,
        seconds: float,
        whereabouts: Callable[[str], str] | None = None,
    ) -> None:
        self._waits, self._rank, self._seconds = waits, rank, seconds
        self._whereabouts = whereabouts
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
                self._warn(f"stalled {shown(seconds)}: {what}", missing, _place(thread, self._rank))
                while self._due[operation] <= seconds:
                    self._due[operation] *= 2
            soonest = min(soonest, self._due[operation] - seconds)
        return soonest

    def _warn(self, what: str, missing: Sequence[tuple[str, str]], place: str) -> None:
        def say() -> None:
            log.warning("%s; %s; %s", what, self._missing(missing), place)

        # Two ranks may be missing to each other: both have to answer while they ask.
        if missing and self._whereabouts is not None:
            threading.Thread(target=say, name="paceline-stall", daemon=True).start()
        else:
            say()

    def _missing(self, missing: Sequence[tuple[str, str]]) -> str:
        if not missing:
            return "any rank could end it"
        named = [self._named(who, last) for who, last in missing[:_NAMED]]
        more = [f"{len(missing) - _NAMED} more"] if len(missing) > _NAMED else []
        return "missing " + " and ".join([*named, *more])

    def _named(self, who: str, last: str) -> str:
        where = self._whereabouts(who) if self._whereabouts is not None else ""
        return ", ".join(filter(None, [who, f"last heard of in {last}" if last else "not heard of yet", where]))


def _place(thread: int, rank: str) -> str:
    if line := users_line(thread):
        return f"{rank} waits at {line}"
    if line := users_line():
        return f"the main thread of {rank} is at {line}"
    return f"{rank} waits"
