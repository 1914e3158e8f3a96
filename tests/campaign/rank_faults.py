"""What a rank does to itself at a moment of a trial."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from trials import FAULTS, Trial

ROOM = 8 << 20
"""Bytes that a rank may still take once its memory is limited."""

BEFORE = 0.05
"""Seconds: a rank whose moment in the meeting is before this raises before it begins to meet."""


class Planted(Exception):
    """What a rank raises because the trial wants it."""


class Due:
    """Whether the rank's main thread should do it: `check` does so then."""

    def __init__(self, exception: BaseException) -> None:
        self._exception = exception
        self._due = False

    def set(self) -> None:
        self._due = True

    def check(self) -> None:
        if self._due:
            raise self._exception


def armed(trial: Trial, rank: int, say: Callable[[str], None]) -> Callable[[], None]:
    """Do it to this rank, if it is a victim, in `trial.moment` seconds. Returns what it calls between its steps.

    say: is told "fault" just before.
    """
    if FAULTS[trial.fault].place != "victim" or rank not in trial.victims:
        return lambda: None
    due = Due(SystemExit(3) if trial.fault == "sys.exit" else Planted("the trial wants this"))
    if trial.fault == "signal handler raises":
        signal.signal(signal.SIGALRM, lambda number, frame: _raise(say, number, frame))
        signal.setitimer(signal.ITIMER_REAL, max(1e-4, trial.moment))
        return lambda: None

    def act() -> None:
        say("fault")
        _ACTS[trial.fault]()

    raises = trial.fault in ("sys.exit", "exception")
    if raises and trial.phase == "meeting" and trial.moment < BEFORE:
        due.set()
    timer = threading.Timer(trial.moment, due.set if raises else act)
    timer.daemon = True
    timer.start()

    def between() -> None:
        try:
            due.check()
        except BaseException:
            say("fault")
            raise

    return between


def _raise(say: Callable[[str], None], number: int, frame: FrameType | None) -> None:
    say("fault")
    raise Planted(f"in the handler of signal {number}")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM,) * 2)


def _limit_descriptors() -> None:
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1,) * 2)


def _close_connections() -> None:
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(path.name))) as end:
            if end.family == socket.AF_INET and end.getpeername():
                end.shutdown(socket.SHUT_RDWR)


def _signal(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


_ACTS: dict[str, Callable[[], object]] = {
    "kill": _signal(signal.SIGKILL),
    "two killed": _signal(signal.SIGKILL),
    "full disk, kill": _signal(signal.SIGKILL),
    "terminate": _signal(signal.SIGTERM),
    "segfault": lambda: ctypes.string_at(0),
    "_exit": lambda: os._exit(3),
    "stop": _signal(signal.SIGSTOP),
    "pause": _signal(signal.SIGSTOP),
    "long pause": _signal(signal.SIGSTOP),
    "full disk": lambda: None,
    "memory limit": _limit_memory,
    "connections closed": _close_connections,
    "descriptor limit": _limit_descriptors,
}


def due_now(trial: Trial) -> float:
    """Seconds for which a job goes on after the moment, so that what heals is seen to."""
    return trial.moment + trial.pause + 0.2


def now() -> float:
    """Seconds, alike in all processes of this machine."""
    return time.monotonic()
