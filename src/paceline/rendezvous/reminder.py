"""Warnings of ranks that wait to meet about what they wait for, long before they give up."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from paceline.formats.sizes import show_duration

DEFAULT_SECONDS = 5.0
"""Seconds before the first reminder of a meeting; PACELINE_STALL_SECONDS replaces it."""

log = logging.getLogger("paceline.rendezvous")


class Reminder:
    """Warns once a wait has lasted `seconds` (None: DEFAULT_SECONDS, 0: never), and whenever it has doubled.

    say: takes the text of a warning, in place of the log.
    """

    def __init__(self, seconds: float | None = None, say: Callable[[str], object] = log.warning) -> None:
        self._say = say
        self._begin = time.monotonic()
        self._due = (DEFAULT_SECONDS if seconds is None else seconds) or math.inf

    def check(self, problem: Callable[[], str]) -> None:
        """Warn if a warning is due. problem: returns what the rank waits for; there is no warning if it is empty."""
        waited = time.monotonic() - self._begin
        if waited < self._due:
            return
        while self._due <= waited:
            self._due *= 2
        if text := problem():
            self._say(f"stalled {show_duration(waited)}: {text}")
