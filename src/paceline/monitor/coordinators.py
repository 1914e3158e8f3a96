"""The coordinators of a process, as others see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from paceline.observe.trace.dump import MAX_EVENTS
from paceline.observe.trace.request import Request, of_records, wall_ns

if TYPE_CHECKING:
    from paceline.observe.observer import Source


class Coordinators:
    """The coordinators that are open, by the channel of the group that carries their data.

    keep_closed: whether to keep the last requests of closed coordinators, for a dump that will be written. look: called
    before a coordinator closes, so that an observer can take in what it has done.
    """

    def __init__(self, keep_closed: bool, look: Callable[[], None]) -> None:
        self._keep_closed, self._look = keep_closed, look
        self._open: dict[int, Source] = {}
        self._closed: list[Request] = []

    def open(self) -> dict[int, Source]:
        """The coordinators that are open now, by channel."""
        return dict(self._open)

    def show(self, channel: int, coordinator: Source) -> None:
        """Show a coordinator to others. channel: that of the group that carries its data."""
        self._open[channel] = coordinator

    def hide(self, channel: int) -> None:
        """Hide the coordinator on this channel, which closes; nothing happens if there is none."""
        if channel in self._open:
            self._look()
        closed = self._open.pop(channel, None)
        if closed is not None and self._keep_closed:
            self._closed = (self._closed + of_records(channel, closed.records(), wall_ns()))[-MAX_EVENTS:]

    def requests(self) -> list[Request]:
        """The last requests of all coordinators, in the order in which they ended.

        Requests of closed coordinators are among them only if those are kept.
        """
        shift = wall_ns()
        return self._closed + [
            request for channel, one in self.open().items() for request in of_records(channel, one.records(), shift)
        ]
