"""Warnings about operations that have waited long: which they are, for which ranks, and where in the program."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from paceline.formats.sizes import show_duration
from paceline.monitor.source_line import users_line
from paceline.observe.waits import Missing

if TYPE_CHECKING:  # what nobody asks for need not be loaded
    from paceline.observe.observer import Engine

DEFAULT_SECONDS = 60.0
"""Seconds before the first warning; PACELINE_STALL_SECONDS replaces it."""

_NAMED = 4
"""Missing ranks that a warning names."""
_LEAD = 5.0
"""Seconds before an operation's deadline at which the ranks are asked where they are, for the error."""

log = logging.getLogger("paceline")


class Stalls:
    """Warns of an operation once it has waited `seconds` (0: never), and again each time its wait has doubled.

    Shortly before an operation's deadline it notes for the error where the ranks are. timeout: the seconds that
    operations may take as a rule. While nothing waits here, it lets the engine tell the other ranks, which may wait for
    this one, where its main thread is: three times in `seconds`, or in `timeout` if that is less.

    rank: what to call this rank. whereabouts: returns in words where the rank with this name is now, "" if it cannot
    tell. It may take its time, so it is called in a thread of its own.
    """

    def __init__(
        self,
        engine: Engine,
        rank: str,
        seconds: float,
        timeout: float,
        whereabouts: Callable[[str], str] | None = None,
    ) -> None:
        self._engine, self._rank, self._seconds = engine, rank, seconds or math.inf
        self._whereabouts = whereabouts
        self._period = min(self._seconds, timeout) / 3
        self._due: dict[int, float] = {}
        self._noted: set[int] = set()

    def check(self) -> float:
        """Warn and note what is due. Returns the seconds after which the next check is due at the latest."""
        waits = self._engine.waits()
        self._due = {operation: self._due.get(operation, self._seconds) for operation, *_ in waits}
        self._noted.intersection_update(self._due)
        if not waits:
            self._engine.tell_line(users_line().encode("ascii", "backslashreplace").decode())
        soonest = self._period
        for operation, seconds, left, thread, what, missing in waits:
            if seconds >= self._due[operation]:
                self._warn(f"stalled {show_duration(seconds)}: {what}", missing, _place(thread, self._rank))
                while self._due[operation] <= seconds:
                    self._due[operation] *= 2
            lead = min(_LEAD, (seconds + left) / 2)
            if left > lead:
                soonest = min(soonest, left - lead)
            elif operation not in self._noted:
                self._noted.add(operation)
                self._note(operation, left, missing, _place(thread, self._rank))
            soonest = min(soonest, self._due[operation] - seconds)
        return soonest

    def _warn(self, what: str, missing: Sequence[Missing], place: str) -> None:
        self._ask(missing, lambda: log.warning("%s; %s; %s", what, self._missing(missing), place))

    def _note(self, operation: int, left: float, missing: Sequence[Missing], place: str) -> None:
        def note() -> None:
            known = [(who, self._where(who, line, ago)) for who, _, line, ago in missing[:_NAMED]]
            words = [*(f"{who}, {where}" for who, where in known if where), place]
            self._engine.annotate(operation, f"{show_duration(max(left, 0.0))} before: {'; '.join(words)}")

        self._ask(missing, note)

    def _ask(self, missing: Sequence[Missing], then: Callable[[], None]) -> None:
        # Two ranks may be missing to each other: both have to answer while they ask.
        if missing and self._whereabouts is not None:
            try:
                threading.Thread(target=then, name="paceline-stall", daemon=True).start()
                return
            except RuntimeError:  # the interpreter is ending, and starts no thread any more
                pass
        then()

    def _missing(self, missing: Sequence[Missing]) -> str:
        if not missing:
            return "any rank could end it"
        named = [self._named(*one) for one in missing[:_NAMED]]
        more = [f"{len(missing) - _NAMED} more"] if len(missing) > _NAMED else []
        return "missing " + " and ".join([*named, *more])

    def _named(self, who: str, last: str, line: str, ago: float) -> str:
        heard = f"last heard of in {last}" if last else "not heard of yet"
        return ", ".join(filter(None, [who, heard, self._where(who, line, ago)]))

    def _where(self, who: str, line: str, ago: float) -> str:
        now = self._whereabouts(who) if self._whereabouts is not None else ""
        return now or (f"{show_duration(ago)} ago at {line}" if line else "")


def _place(thread: int, rank: str) -> str:
    if line := users_line(thread):
        return f"{rank} waits at {line}"
    if line := users_line():
        return f"the main thread of {rank} is at {line}"
    return f"{rank} waits"
