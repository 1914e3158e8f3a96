"""Batches of a coordinator between machines, whose plans follow the network.

The engine counts the large batches of all-reduces, which come in one order on all ranks. Twice a second the ranks
agree on how long the last of them took, in a group of their own and beside whatever else they do: of every batch, the
time of the rank that waited least. If that has changed for good, no rank begins a further batch than all have begun;
once those are done all measure their links, plan again and go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from paceline import _engine
from paceline.adapt.replanner import Call
from paceline.calibration import adapt as fitted
from paceline.group.host import Replanner
from paceline.observe.periodic import Periodic

Values = npt.NDArray[np.float64]


class AdaptiveBatches:
    """Follows a native coordinator, from a thread of its own, until `close`."""

    def __init__(
        self,
        coordinator: Any,
        data: Any,
        replanner: Replanner,
        group: Callable[[], Any],
        notify: Callable[[int, Callable[[], None]], None],
    ) -> None:
        """data: the native group of the batches. group: makes another one of the same ranks, for agreeing and
        measuring; on all ranks, at about the same time. notify: see `Runtime.notify`."""
        self._coordinator, self._data, self._replanner = coordinator, data, replanner
        self._make, self._notify = group, notify
        self._group: Any = None
        self._next = 0  # batches that were looked at, or were passed over
        self._closed = False
        self._lock = threading.Lock()
        self._looks = Periodic(self._look, "paceline-adapt")

    def close(self) -> None:
        """Batches go on by the plans that they have. What is being agreed or measured is given up."""
        with self._lock:
            self._closed = True
            if self._group is not None:
                self._group.close()
        self._looks.close()

    def _look(self) -> float:
        try:
            if self._coordinator.large_batches()[0] >= self._next + fitted.FEWEST_BATCHES and self._open():
                self._look_at_the_last()
        except _engine.CommunicationError:  # a rank is lost, or has left: whoever misses it says so
            return threading.TIMEOUT_MAX
        return fitted.BATCHES_SECONDS

    def _open(self) -> bool:
        with self._lock:
            if self._group is None and not self._closed:
                self._group = self._make()
            return not self._closed

    def _look_at_the_last(self) -> None:
        """The last batches that are over on all ranks, of those that nobody has looked at."""
        looked = self._next
        self._agreed(np.zeros(1))  # all look now: who looked half a second ago has gone on since
        self._next = int(self._agreed(np.array([float(self._coordinator.large_batches()[0])]))[0])
        wanted = min(self._next - looked, fitted.MOST_BATCHES)
        count, last = self._coordinator.large_batches()  # of all `count`, bytes and nanoseconds of the last
        first = self._next - wanted - (count - len(last))
        window = last[first : first + wanted] if first >= 0 else []
        seconds = np.full(wanted, -1.0)
        seconds[: len(window)] = [nanoseconds / 1e9 for _, nanoseconds in window]
        seconds = self._agreed(seconds)
        if (seconds < 0).any():  # some rank has forgotten some batch
            return
        ratio = self._replanner.changed([Call("all_reduce", nbytes) for nbytes, _ in window], seconds)
        if ratio is not None:
            self._plan_again(ratio)

    def _plan_again(self, ratio: float) -> None:
        try:
            begun = self._agreed(np.array([-float(self._coordinator.hold())]))
            self._coordinator.hold_after(-int(begun[0]))
            while not self._coordinator.holds():
                time.sleep(fitted.REST_SECONDS)
            self._agreed(np.zeros(1))  # and so are the others
            self._replanner.plan_again(ratio, self._group)
            self._next = self._coordinator.large_batches()[0]
        except BaseException as error:
            # The others may have made their plans, and different ones never end.
            if not self._closed:
                self._data.abort(f"plans could not be made again: {error}")
            raise
        finally:
            with suppress(_engine.CommunicationError):
                self._coordinator.release()

    def _agreed(self, values: Values) -> Values:
        """The least of all ranks. Takes no turn in waiting: others of this process do that."""
        dtype, least = _engine.DTYPES["float64"], _engine.OPS["MIN"]
        operation = self._group.all_reduce(values.ctypes.data, len(values), dtype, least, 1.0, _engine.NOTIFY)
        over = threading.Event()
        self._notify(operation.id, over.set)
        over.wait()
        if problem := operation.error():
            raise _engine.CommunicationError(problem)
        return values
