"""The thread that tells users of operations that have ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

from paceline._engine import Engine
from paceline.cpu import pinning
from paceline.runtime.completions import Completions


class Notifier:
    """Runs callbacks of operations of `engine` in a thread of its own, made when the first is registered.

    So a callback that takes long, or waits for the GIL, delays other callbacks alone. cpus: those of the thread; empty:
    those of the process.
    """

    def __init__(self, engine: Engine, cpus: tuple[int, ...]) -> None:
        self._engine = engine
        self._cpus = cpus
        self._completions = Completions()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def notify(self, operation: int, callback: Callable[[], None]) -> None:
        """Call `callback` once when this NOTIFY operation has finished; see `Runtime.notify`."""
        if self._thread is None:
            self._begin()
        self._completions.register(operation, callback)

    def close(self) -> None:
        """End the thread, as the engine is closed, and run the callbacks of operations that are not over."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._completions.finish_all()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="paceline-notify", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        pinning.move(self._cpus)
        while finished := self._engine.notifications():
            self._completions.report(finished)
