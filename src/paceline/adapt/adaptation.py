"""Plans that follow the network, for a group between machines or for the batches of a coordinator.

The engine counts large calls, which gives the same number on all ranks, and times them. Before some of them all ranks
stop to look. They then start to agree on how long the last calls took: of each call, the time of the rank that waited
least. At the next stop they look at what they have agreed on. If calls take longer, or less long, than they should, and
that is no chance, all ranks measure their links and plan again.

No rank may be held up by ranks that are some calls behind. So ranks also agree on how many calls any of them ran ahead,
and the next stop comes after twice as many calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from paceline import _engine
from paceline.adapt.replanner import Call, Replanner
from paceline.calibration import adapt as fitted
from paceline.group import host
from paceline.group.buffers import write
from paceline.group.operation import Operation
from paceline.observe.annotations import Annotations


class Host(host.Host, Protocol):
    """That of groups, and what tells this rank's figures which collectives are Paceline's own."""

    @property
    def annotations(self) -> Annotations:
        """The part of this rank's figures that the engine does not count."""
        ...


class _Agreement(NamedTuple):
    """Known once `operation` is over: the seconds of each call on the rank that waited least, negative where some rank
    cannot tell, and then minus the most calls that any rank ran ahead.

    first: the number of the first of `calls`.
    """

    first: int
    calls: Sequence[Call]
    values: npt.NDArray[np.float64]
    operation: Operation


class Adaptation:
    """Keeps the plans of one native group to its network. All ranks make it between the same two calls."""

    def __init__(self, host: Host, native: _engine.Group, replanner: Replanner) -> None:
        self._host = host
        self._native = native
        self._replanner = replanner
        self._seconds = fitted.CALLS_SECONDS  # that the calls between two stops should take
        self._next = 0  # the number of the first call that was not looked at
        self._agreement: _Agreement | None = None
        self._patience: int | None = None  # calls that one stop comes after another at least, once that is known

    def count_calls(self) -> None:
        """Look at each stop in the thread that is about to begin a large call."""
        self._native.count_large(fitted.FIRST_STOP, self.look)

    def count_batches(self) -> None:
        """Have the coordinator hold its batches at each stop, until `look` has been called."""
        self._seconds = fitted.BATCHES_SECONDS
        self._native.count_large(fitted.FIRST_STOP)

    def look(self) -> None:
        """All ranks have stopped before the same call: look at the last ones, and say where to stop next."""
        try:
            if self._agreement is not None:
                self._conclude(self._agreement)
            self._agree()
        except BaseException as error:
            # The other ranks may have made other plans, and a collective by plans that differ never ends.
            self._native.abort(f"plans could not be kept to the network: {error}")
            raise

    def _agree(self) -> None:
        count, ahead, found = self._native.large_calls(self._next)
        # The last call may still be under way.
        calls = [Call(collective, nbytes) for collective, nbytes, _ in found[:-1][-fitted.MOST_CALLS :]]
        self._agreement = None
        if calls:
            seconds = [took for _, _, took in found[:-1][-fitted.MOST_CALLS :]]
            values = np.array([*seconds, -float(ahead)])
            data = write(values)
            call = _engine.CollectiveCall(
                "all_reduce", target=data.address, count=data.count, dtype=data.dtype, op=_engine.OPS["MIN"]
            )
            self._host.annotations.internal.add(self._native.channel, self._native.sequence)
            native = self._native.start(call, _engine.ASYNC)
            assert native is not None
            operation = Operation(self._host, native, [data])
            self._agreement = _Agreement(count - 1 - len(calls), calls, values, operation)
        patience = fitted.CAUTIOUS_CALLS if self._patience is None else self._patience
        self._native.stop_before(count + max(patience, self._calls_between_stops(calls)))

    def _calls_between_stops(self, calls: Sequence[Call]) -> int:
        expected = [self._replanner.expected(call) for call in calls if call.nbytes > 0]
        if not expected:
            return 1
        return min(fitted.MOST_CALLS, math.ceil(self._seconds * len(expected) / sum(expected)))

    def _conclude(self, agreement: _Agreement) -> None:
        agreement.operation.wait()
        *_, ahead = agreement.values.tolist()
        self._patience = 1 + 2 * int(-ahead)
        seconds = agreement.values[:-1]
        known = np.flatnonzero(seconds >= 0)
        over = int(known[-1]) + 1 if len(known) else 0
        self._next = agreement.first + over  # later ones were not over yet on some rank
        ratio = self._replanner.changed(agreement.calls[:over], seconds[:over])
        if ratio is not None:
            self._native.finish_large()
            self._replanner.plan_again(ratio, self._native)
            self._next = self._native.large_calls(self._next)[0]
