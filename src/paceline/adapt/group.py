"""A group between machines that notices when its network is not what its plans were made for.

The large all-reduces, all-gathers and reduce-scatters are counted, which gives the same number on all ranks. After each
window of them, one call where that takes long, the ranks agree on how long these took: of every call, the time of the
rank that waited least. No rank may be held up whose peers are some calls behind: they agree, too, on how many calls any
of them ran ahead, and look at what they agreed on after twice as many. If the pace has changed for good, all measure
their links, between two operations, and plan again. Broadcasts are not counted: their root is done when its last bytes
are in a socket, and ranks beside it sooner than the link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paceline import _engine
from paceline.adapt.call_times import CallTimes, Counted, Events
from paceline.adapt.replanner import Call, Replanner
from paceline.calibration import adapt as fitted
from paceline.group.buffers import write
from paceline.group.host import Host
from paceline.group.operation import Operation

_MOST_LEFT = 4 * fitted.WINDOW
"""Calls that are not over somewhere, or were forgotten, when their turn has come: the oldest of more are given up."""


class _Agreement(NamedTuple):
    """Seconds of every call on the rank that waited least, negative where some rank cannot tell, and then minus the
    most calls that any rank ran ahead: known once the operation is over. due: the number of the call before which it is
    looked at."""

    calls: Sequence[Counted]
    values: npt.NDArray[np.float64]
    operation: Operation
    due: int


class AdaptiveGroup:
    """The native group, with large collectives counted; everything else goes straight to it."""

    def __init__(self, runtime: Host, native: Any, replanner: Replanner, events: Events) -> None:
        self._runtime = runtime
        self._native = native
        native.at_once_below = fitted.LARGE_CALL
        for name in dir(native):
            if name.endswith(("_array", "_tensor")):
                setattr(self, name, getattr(native, name))  # small calls pay nothing for the large ones
        self._replanner = replanner
        self._call_times = CallTimes(native.channel, events)
        self._agreement: _Agreement | None = None
        self._calls: list[Counted] = []  # that were not agreed on
        self._count = 0  # of all
        self._under_way: deque[Any] = deque()
        self._ahead = 0  # the most calls that were under way when another one began
        self._patience: int | None = None  # calls from agreeing to looking at it, once that is known

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
        if nbytes < fitted.LARGE_CALL:
            return call()
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft()
        self._ahead = max(self._ahead, len(self._under_way))
        if self._agreement is not None and self._count >= self._agreement.due:
            self._look_at(self._agreement)
        if self._agreement is None and self._enough():
            self._agreement = self._agree()
        self._calls.append(Counted(self._native.sequence, Call(collective, nbytes)))
        self._count += 1
        operation = call()
        if operation is not None:
            self._under_way.append(operation)
        return operation

    def _enough(self) -> bool:
        """Whether there is a window of calls, but for the last one: where calls overlap, that is not over yet."""
        window = self._calls[:-1]
        if len(window) >= fitted.WINDOW or self._patience is None:
            return len(window) >= fitted.WINDOW
        return sum(self._replanner.expected(one.call) for one in window) >= fitted.WINDOW_SECONDS

    def _agree(self) -> _Agreement:
        window, self._calls = self._calls[-_MOST_LEFT:-1], self._calls[-1:]
        values = np.append(self._call_times.seconds(window, self._calls), -float(self._ahead))
        data, least = write(values), _engine.OPS["MIN"]
        self._runtime.annotations.internal.add(self._native.channel, self._native.sequence)
        native = self._native.all_reduce(data.address, data.count, data.dtype, least, 1.0, _engine.ASYNC)
        patience = fitted.CAUTIOUS_CALLS if self._patience is None else self._patience
        return _Agreement(window, values, Operation(self._runtime, native, [data]), self._count + patience)

    def _look_at(self, agreement: _Agreement) -> None:
        agreement.operation.wait()
        self._agreement = None
        *_, ahead = agreement.values.tolist()
        self._patience = 1 + 2 * int(-ahead)
        seconds = agreement.values[:-1]
        known = np.flatnonzero(seconds >= 0)
        over = int(known[-1]) + 1 if len(known) else 0
        self._calls[:0] = agreement.calls[over:]  # not over yet on some rank
        ratio = self._replanner.changed([one.call for one in agreement.calls[:over]], seconds[:over])
        if ratio is None:
            return
        for operation in self._under_way:
            operation.wait()
        self._under_way.clear()
        self._replanner.plan_again(ratio, self._native)
        self._calls.clear()
