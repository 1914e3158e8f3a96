"""The facts that a process tells its observers because the engine cannot see them."""

from __future__ import annotations

from collections.abc import Callable

from paceline.observe.batches import BatchTimes
from paceline.observe.internal import InternalOperations
from paceline.observe.outside import OutsideWaits
from paceline.observe.steps import KnownSteps


class Annotations:
    """The annotations of one process. inside_ns: the nanoseconds that callers have waited in the engine so far."""

    def __init__(self, inside_ns: Callable[[], int]) -> None:
        self.steps = KnownSteps()
        """The steps of optimizers, if a framework says when they step."""
        self.outside = OutsideWaits(inside_ns)
        """Waits for communication outside the engine."""
        self.internal = InternalOperations()
        """Operations that Paceline starts for itself."""
        self.batches = BatchTimes()
        """The times of batches that Paceline's loaders made."""
