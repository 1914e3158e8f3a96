"""Does what is due before a signal ends this process."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

from paceline import _engine

_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""Those by which launchers and schedulers end or warn a job, and which end a process that does not handle them."""
_SECONDS = 6
"""Seconds after which the process ends anyway: launchers give 10 s and more."""
_CLOSED = 1 << 32
"""The word that no signal sends."""

log = logging.getLogger("paceline")


class LastMoment:
    """Calls `action` with the name of a signal that is about to end this process, in a thread of its own.

    The process then ends by the signal, as if nobody had heard it. A signal that the program handles is not heard.
    """

    def __init__(self, action: Callable[[str], None]) -> None:
        self._action = action
        self._came = False
        self._news = self._hear()
        self._thread: threading.Thread | None = None
        if self._news >= 0:
            self._thread = threading.Thread(target=self._run, name="paceline-end", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait for the end of this process if a signal has come, as what fails from then on is no news."""
        if self._came and self._thread is not None and threading.current_thread() is threading.main_thread():
            self._thread.join()

    def close(self) -> None:
        """Hear no more signals."""
        if self._thread is None or self._thread is threading.current_thread():
            return
        _engine.stop_hearing_ending_signals()
        os.eventfd_write(self._news, _CLOSED)
        self._thread.join()
        os.close(self._news)
        self._thread = None

    def _hear(self) -> int:
        try:
            return _engine.hear_ending_signals(_SIGNALS, _SECONDS)
        except OSError as error:
            log.info("signals end this process without a report: %s", error.strerror)
            return -1

    def _run(self) -> None:
        number = int.from_bytes(os.read(self._news, 8), sys.byteorder) % _CLOSED
        if not number:
            return
        self._came = True
        try:
            self._action(signal.Signals(number).name)
        except Exception:
            log.exception("no report")
        finally:
            _engine.end_by(number)
