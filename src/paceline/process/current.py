"""The runtime of this process: made on first use, closed at exit, and not inherited by a fork."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial

from paceline.errors import CommunicationError
from paceline.host_name import host_name
from paceline.process import at_exit
from paceline.process.orphan import end_with_torchrun
from paceline.runtime.runtime import Runtime
from paceline.settings.settings import Settings

log = logging.getLogger("paceline")


class _Current:
    """Holds the runtime of this process. A forked child forgets it and leaves its sockets alone."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self.inherited: list[Runtime] = []  # kept alive, so that no destructor talks to the parent's peers
        self.let_go: Callable[[], None] = lambda: None
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self.lock = threading.Lock()
        if self.runtime is not None:
            self.inherited.append(self.runtime)
            self.runtime = None


_current = _Current()


def runtime() -> Runtime:
    """The runtime of this process, made on first use from the environment and closed at exit.

    Raises ConfigurationError for an environment that makes no sense, and CommunicationError where this process gets no
    shared memory.
    """
    with _current.lock:
        if _current.runtime is None or not _current.runtime.usable:
            from paceline import _engine
            from paceline.process import network
            from paceline.process.outlets import Outlets
            from paceline.runtime.plans import plans

            settings = Settings.from_environment()
            set_up_logging(settings)
            end_with_torchrun(settings)
            _current.let_go()  # otherwise the runtime before this one would stay alive, with its arena
            made = Runtime(settings, _engine, plans, network, Outlets)
            _current.let_go = at_exit.register(partial(_close_at_exit, made))
            _current.runtime = made
        return _current.runtime


def _close_at_exit(made: Runtime) -> None:
    """Close it, and log what no call has said so far: nobody can catch that any more."""
    try:
        made.close()
    except CommunicationError as error:
        log.error("%s: %s", type(error).__name__, error)


def running() -> Runtime | None:
    """The runtime of this process if there is one that can be used, else None."""
    with _current.lock:
        return _current.runtime if _current.runtime is not None and _current.runtime.usable else None


def set_up_logging(settings: Settings) -> None:
    """Obey PACELINE_LOG. A program that set up logging itself keeps its handlers."""
    if settings.log_level is None:
        return
    log.setLevel(settings.log_level)
    if not log.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(f"{host_name()}:{settings.rank}: %(levelname)s %(message)s"))
        log.addHandler(handler)
