"""A thread that looks where a coordinator stops."""

from __future__ import annotations

import threading
from collections.abc import Callable

from paceline import _engine
from paceline.observe.periodic import Periodic


class CoordinatorStops:
    """Calls `look` at each stop of a native coordinator, on a thread of its own, until `close`."""

    def __init__(
        self,
        coordinator: _engine.Coordinator,
        look: Callable[[], None],
        notify: Callable[[int, Callable[[], None]], None],
    ) -> None:
        """notify: see `Host.notify`."""
        self._coordinator, self._look, self._notify = coordinator, look, notify
        self._stopped = threading.Event()
        self._closed = False
        self._listen()
        self._thread = Periodic(self._next, "paceline-adapt")

    def close(self) -> None:
        """End the thread. The coordinator must have been closed, which ends what the thread waits for."""
        self._closed = True
        self._stopped.set()
        self._thread.close()

    def _listen(self) -> None:
        self._notify(self._coordinator.stops_id, self._stopped.set)

    def _next(self) -> float:
        self._stopped.wait()
        self._stopped.clear()
        if self._closed:
            return threading.TIMEOUT_MAX
        try:
            self._look()
            self._listen()
        except _engine.CommunicationError:  # a rank is lost, or has left: the requests that need it say so
            return threading.TIMEOUT_MAX
        return 0.0
