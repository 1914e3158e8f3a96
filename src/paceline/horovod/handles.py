"""Handles: the integers that asynchronous calls return, and the calls that they stand for."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from paceline.errors import CommunicationError
from paceline.horovod.channel import Channel
from paceline.horovod.exceptions import HorovodInternalError

if TYPE_CHECKING:
    from paceline.coordinate import Request
    from paceline.horovod.adasum_exchange import Course

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Pending(Generic[T]):
    """The requests in flight that make up one call.

    finish: returns the call's result once all requests are done.
    """

    channel: Channel
    names: Sequence[str]
    requests: Sequence[Request | Course]
    finish: Callable[[], T]

    def done(self) -> bool:
        """Return whether all requests are done."""
        if not all(request.done() for request in self.requests):
            return False
        self.channel.forget(self.names, self.requests)
        return True

    def result(self) -> T:
        """Wait for all requests and return the call's result. Raises HorovodInternalError if a request failed.

        Nothing is read or written for the call any more when this returns or raises that.
        """
        failed: Exception | None = None
        for request in self.requests:  # if a wait is interrupted, the channel keeps the memory of them
            try:
                request.wait()
            except Exception as error:
                failed = failed or error
        self.channel.forget(self.names, self.requests)
        if isinstance(failed, CommunicationError):
            raise HorovodInternalError(str(failed)) from failed
        if failed is not None:
            raise failed
        return self.finish()


class Handles:
    """The calls whose results nobody has taken yet."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._pending: dict[int, Pending[object]] = {}
        self._lock = threading.Lock()

    def add(self, pending: Pending[T]) -> int:
        """Register a call and return its handle."""
        with self._lock:
            handle = next(self._numbers)
            self._pending[handle] = pending
            return handle

    def poll(self, handle: int) -> bool:
        """Return whether the call has ended.

        Raises ValueError for a handle that is unknown or was already synchronized.
        """
        pending = self._pending.get(handle)
        if pending is None:
            raise ValueError(f"Handle {handle} was not created or has been cleared.")
        return pending.done()

    def synchronize(self, handle: int) -> object:
        """Wait for the call and return its result. Returns None if the handle is unknown or was synchronized before.

        Raises HorovodInternalError if the call failed.
        """
        with self._lock:
            pending = self._pending.pop(handle, None)
        return None if pending is None else pending.result()

    def clear(self) -> None:
        """Forget all calls."""
        with self._lock:
            self._pending.clear()
