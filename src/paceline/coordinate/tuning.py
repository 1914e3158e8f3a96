"""Tuning while a job runs: rank 0 times steps, and says in the log of all ranks what the size of batches is from here.

A step ends where a name comes again. No other rank does anything for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TextIO

from paceline import _engine
from paceline.coordinate.tuner import Tuner

log = logging.getLogger("paceline")

_MOST_NAMES = 1 << 16
"""In which one must come again."""


class Tuning:
    """Stands before the `submit` of a native coordinator, of policy board and on rank 0, until it is frozen.

    path: of a table of all turns that were tried. frozen: is called when there is nothing more to do.
    """

    def __init__(self, native: Any, tuner: Tuner, path: str | None, frozen: Callable[[], None]) -> None:
        self._native = native
        self._tuner = tuner
        self._frozen = frozen
        self._table = _table(path)
        self._written = 0
        self._names: set[str] = set()  # of the step that is going on
        self._since = 0.0
        self._ended = False
        self._lock = Lock()

    def submit(self, collective: int, name: str, *rest: Any) -> Any:
        """As the native one; what it is told of is an all-reduce each time."""
        with self._lock:
            if not self._ended:
                if name in self._names:
                    self._end_step()
                self._names.add(name)
                if len(self._names) > _MOST_NAMES:
                    log.warning("autotune: nothing is tuned, because none of %s names came again", _MOST_NAMES)
                    self._end()
        return self._native.submit(collective, name, *rest)

    def close(self) -> None:
        """Nothing is tuned any more."""
        with self._lock:
            self._end()

    def _end_step(self) -> None:
        now = time.perf_counter()
        size = self._tuner.fusion_bytes
        if self._since:
            self._tuner.add(now - self._since, len(self._names))
        self._since = now
        self._names.clear()
        self._write()
        if self._tuner.fusion_bytes != size:
            with suppress(_engine.CommunicationError):  # the request itself will say why
                self._native.tune(self._tuner.fusion_bytes)
        if self._tuner.outcome:
            log.warning("autotune: %s", self._tuner.outcome)
            self._end()

    def _write(self) -> None:
        if self._table is None:
            return
        for turn in self._tuner.turns[self._written :]:
            self._table.write(f"{turn.round},{turn.fusion_bytes},{turn.seconds:.9f}\n")
        self._written = len(self._tuner.turns)

    def _end(self) -> None:
        self._ended = True
        self._names.clear()
        if self._table is not None:
            self._table.close()
            self._table = None
        self._frozen()


def _table(path: str | None) -> TextIO | None:
    if path is None:
        return None
    try:
        table = Path(path).open("w", buffering=1)  # noqa: SIM115  # until it is frozen
    except OSError as error:
        log.warning("autotune: what is tried is not written to %s: %s", path, error.strerror)
        return None
    table.write("round,fusion_bytes,step_seconds\n")
    return table
