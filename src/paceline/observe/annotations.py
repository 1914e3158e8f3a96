"""What a process tells those who observe it, because the engine cannot see it."""

from __future__ import annotations

from collections.abc import Callable

from paceline.observe.batches import BatchTimes
from paceline.observe.internal import InternalOperations
from paceline.observe.outside import OutsideWaits
from paceline.observe.steps import KnownSteps


class Annotations:
    """Of one process. inside_ns: what its callers have waited in the engine so far."""

    def __init__(self, inside_ns: Callable[[], int]) -> None:
        self.steps = KnownSteps()
        """Of the optimizers, where a framework says when they step."""
        self.outside = OutsideWaits(inside_ns)
        """Waiting outside the engine."""
        self.internal = InternalOperations()
        """Operations that no program asked for."""
        self.batches = BatchTimes()
        """Of Paceline's loaders."""
