"""Warnings about operations that have waited long: which, for whom, and where in the program."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from paceline.formats.sizes import show_duration
from paceline.monitor.source_line import users_line

DEFAULT_SECONDS = 60.0
"""Before the first warning; PACELINE_STALL_SECONDS replaces it."""

Missing = tuple[str, str, str, float]
"""Who, in what it was last heard of, at which line it said it was, how many seconds ago; words may be empty."""
Wait = tuple[int, float, int, str, Sequence[Missing]]
"""As `Engine.waits()` gives them: operation, seconds, waiting thread or 0, description, who is missing."""

_NAMED = 4

log = logging.getLogger("paceline")


class Stalls:
    """Warns of an operation once it has waited `seconds` (0: never), and again each time its wait has doubled.

    rank: what to call this rank. whereabouts: where a rank that is missing, by its name, is now, in words or not at
    all; it may take its time, and is asked in a thread of its own. tell: is told at which line this rank's main thread
    is while nothing waits here, three times in `seconds`: others may wait for this rank, and wonder.
    """

    def __init__(
        self,
        waits: Callable[[], Sequence[Wait]],
        rank: str,
        seconds: float,
        whereabouts: Callable[[str], str] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._waits, self._rank, self._seconds = waits, rank, seconds
        self._whereabouts, self._tell = whereabouts, tell
        self._due: dict[int, float] = {}

    def check(self) -> float | None:
        """Warn of what is due. Returns after how many seconds the next could be, None for never."""
        if not self._seconds:
            return None
        waits = self._waits()
        self._due = {operation: self._due.get(operation, self._seconds) for operation, *_ in waits}
        soonest = self._seconds
        if self._tell is not None:
            soonest /= 3
            if not waits:
                self._tell(users_line().encode("ascii", "backslashreplace").decode())
        for operation, seconds, thread, what, missing in waits:
            if seconds >= self._due[operation]:
                self._warn(f"stalled {show_duration(seconds)}: {what}", missing, _place(thread, self._rank))
                while self._due[operation] <= seconds:
                    self._due[operation] *= 2
            soonest = min(soonest, self._due[operation] - seconds)
        return soonest

    def _warn(self, what: str, missing: Sequence[Missing], place: str) -> None:
        def say() -> None:
            log.warning("%s; %s; %s", what, self._missing(missing), place)

        # Two ranks may be missing to each other: both have to answer while they ask.
        if missing and self._whereabouts is not None:
            try:
                threading.Thread(target=say, name="paceline-stall", daemon=True).start()
                return
            except RuntimeError:  # the interpreter is ending, and starts no thread any more
                pass
        say()

    def _missing(self, missing: Sequence[Missing]) -> str:
        if not missing:
            return "any rank could end it"
        named = [self._named(*one) for one in missing[:_NAMED]]
        more = [f"{len(missing) - _NAMED} more"] if len(missing) > _NAMED else []
        return "missing " + " and ".join([*named, *more])

    def _named(self, who: str, last: str, line: str, ago: float) -> str:
        where = self._whereabouts(who) if self._whereabouts is not None else ""
        if line and not where:
            where = f"{show_duration(ago)} ago at {line}"
        return ", ".join(filter(None, [who, f"last heard of in {last}" if last else "not heard of yet", where]))


def _place(thread: int, rank: str) -> str:
    if line := users_line(thread):
        return f"{rank} waits at {line}"
    if line := users_line():
        return f"the main thread of {rank} is at {line}"
    return f"{rank} waits"
