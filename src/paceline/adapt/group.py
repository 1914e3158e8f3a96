"""A group between machines that notices when its network is not what its plans were made for.

The large all-reduces, all-gathers and reduce-scatters are counted, which gives the same number on all ranks. After each
window of them the ranks agree on how long these took: of every call, the time of the rank that waited least. They look
at it a window later, so that nobody is held up whose peers are some calls behind. If that has changed for good, all
measure their links, between two operations, and plan again. Broadcasts are not counted: their root is done when its
last bytes are in a socket, and ranks beside it sooner than the link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paceline import _engine
from paceline.adapt.replanner import WINDOW, Call, Keeper
from paceline.group.buffers import write
from paceline.group.host import Host
from paceline.group.operation import Operation
from paceline.trace.event import Event

LARGE = 1 << 20
"""Bytes of a call from which its time is that of the links."""

Events = Callable[[int], Sequence[Any]]
"""Of the engine, those with higher numbers than this."""


class _Counted(NamedTuple):
    sequence: int
    call: Call


class _Agreement(NamedTuple):
    """Seconds of every call on the rank that waited least, known once the operation is over; negative where some rank
    cannot tell."""

    calls: Sequence[Call]
    seconds: npt.NDArray[np.float64]
    operation: Operation


class AdaptiveGroup:
    """The native group, with large collectives counted; everything else goes straight to it."""

    def __init__(self, home: Host, native: Any, keeper: Keeper, events: Events) -> None:
        self._home = home
        self._native = native
        native.at_once_below = LARGE
        for name in dir(native):
            if name.endswith(("_array", "_tensor")):
                setattr(self, name, getattr(native, name))  # small calls pay nothing for the large ones
        self._events = events
        self._keeper = keeper
        self._agreement: _Agreement | None = None
        self._calls: list[_Counted] = []
        self._seen = 0  # the number of the last event that was looked at
        self._under_way: deque[Any] = deque(maxlen=2 * WINDOW)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def all_reduce(self, data: int, count: int, dtype: int, op: int, factor: float, mode: int) -> Any:
        """As of the native group."""
        call = partial(self._native.all_reduce, data, count, dtype, op, factor, mode)
        return self._watched("all_reduce", count * _engine.SIZES[dtype], call)

    def all_gather(self, source: int, data: int, count: int, dtype: int, mode: int) -> Any:
        """As of the native group."""
        call = partial(self._native.all_gather, source, data, count, dtype, mode)
        return self._watched("all_gather", count * _engine.SIZES[dtype] * self._native.size, call)

    def reduce_scatter(self, source: int, to: int, count: int, dtype: int, op: int, factor: float, mode: int) -> Any:
        """As of the native group."""
        call = partial(self._native.reduce_scatter, source, to, count, dtype, op, factor, mode)
        return self._watched("reduce_scatter", count * _engine.SIZES[dtype] * self._native.size, call)

    def _watched(self, collective: str, nbytes: int, call: Callable[[], Any]) -> Any:
        if nbytes < LARGE:
            return call()
        # A window is looked at when the next is full: by then its calls are over, also where they overlap.
        if len(self._calls) == 2 * WINDOW:
            window = self._calls[:WINDOW]
            del self._calls[:WINDOW]
            self._look_at(window)
        self._calls.append(_Counted(self._native.sequence, Call(collective, nbytes)))
        operation = call()
        if operation is not None:
            self._under_way.append(operation)
        return operation

    def _look_at(self, window: Sequence[_Counted]) -> None:
        last, self._agreement = self._agreement, None
        if last is not None and (ratio := self._changed(last)) is not None:
            for operation in self._under_way:
                operation.wait()
            self._under_way.clear()
            told = self._home.told
            with told.outside.span(), told.own.span(self._native.channel, lambda: self._native.sequence):
                self._keeper.plan_again(ratio, self._native)
            self._calls.clear()
        else:
            self._agreement = self._agree(window)

    def _changed(self, agreement: _Agreement) -> float | None:
        agreement.operation.wait()
        if (agreement.seconds < 0).any():  # some rank has forgotten some call, or was still at it
            return None
        return self._keeper.changed(agreement.calls, agreement.seconds)

    def _agree(self, window: Sequence[_Counted]) -> _Agreement:
        seconds = self._seconds(window)
        data, least = write(seconds), _engine.OPS["MIN"]
        self._home.told.own.add(self._native.channel, self._native.sequence)
        native = self._native.all_reduce(data.address, data.count, data.dtype, least, 1.0, _engine.ASYNC)
        return _Agreement([counted.call for counted in window], seconds, Operation(self._home, native, [data]))

    def _seconds(self, window: Sequence[_Counted]) -> npt.NDArray[np.float64]:
        """What every call took here; negative where that is not known."""
        mine = (event for event in map(Event._make, self._events(self._seen)) if event.channel == self._native.channel)
        events = {(event.sequence, event.collective): event for event in mine}
        seconds = np.full(len(window), -1.0)
        before = 0
        for index, counted in enumerate(window):
            event = events.get((counted.sequence, counted.call.collective))
            if event is not None and event.end_ns > 0:
                # What overlaps with the call before counts once.
                seconds[index] = (event.end_ns - max(event.start_ns, before)) / 1e9
                before = event.end_ns
                self._seen = event.id
        return seconds
