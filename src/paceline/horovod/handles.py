"""Handles: the integers that asynchronous calls return, and what they stand for."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paceline.errors import CommunicationError
from paceline.horovod.channel import Channel
from paceline.horovod.exceptions import HorovodInternalError

if TYPE_CHECKING:
    from paceline.coordinate import Request
    from paceline.horovod.adasum_exchange import Course


@dataclass(frozen=True, slots=True)
class Pending:
    """Requests under way that make up one call. `finish` makes its result of them; `keep` is the memory they use."""

    channel: Channel
    names: Sequence[str]
    requests: Sequence[Request | Course]
    finish: Callable[[], Any]
    keep: object = None

    def done(self) -> bool:
        """Whether all of it is over."""
        if not all(request.done() for request in self.requests):
            return False
        self.channel.forget(self.names, self.requests)
        return True

    def result(self) -> Any:
        """Wait for all of it. Raises HorovodInternalError if a request failed."""
        try:
            for request in self.requests:
                request.wait()
        except CommunicationError as error:
            raise HorovodInternalError(str(error)) from error
        finally:
            self.channel.forget(self.names, self.requests)
        return self.finish()


class Handles:
    """The calls that nobody has waited for yet."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._pending: dict[int, Pending] = {}
        self._lock = threading.Lock()

    def add(self, pending: Pending) -> int:
        with self._lock:
            handle = next(self._numbers)
            self._pending[handle] = pending
            return handle

    def poll(self, handle: int) -> bool:
        """Whether the call is over. ValueError for a handle that is not waiting any more, or never was."""
        pending = self._pending.get(handle)
        if pending is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        return pending.done()

    def synchronize(self, handle: int) -> Any:
        """The call's result, once; None for a handle that was waited for before."""
        with self._lock:
            pending = self._pending.pop(handle, None)
        return None if pending is None else pending.result()

    def clear(self) -> None:
        with self._lock:
            self._pending.clear()
