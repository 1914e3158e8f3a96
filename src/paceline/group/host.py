"""The services that a group needs from the process that it lives in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from paceline import _engine
from paceline.plan.wire import PlanEntry
from paceline.topology import Topology

Entries = Mapping[str, Sequence[PlanEntry]]
"""The plans of a group in the engine's form, by collective."""

Plans = Callable[[Topology, Sequence[int], str | None], Entries]
"""`plans(topology, ranks, algorithm)` makes the plans of a group, as `paceline.runtime.plans.plans` does."""


class Ending(Protocol):
    """An operation that may still be under way."""

    def done(self) -> bool:
        """Return whether the operation is over, well or not, without waiting."""
        ...


class Host(Protocol):
    """The owner of the engine that groups share, `paceline.runtime.runtime.Runtime`. A test may have its own."""

    @property
    def devices(self) -> _engine.Devices:
        """The CUDA devices of this process; the driver is opened when they are first asked for."""
        ...

    def subgroup(
        self, parent: int, ranks: Sequence[int], channel: int, timeout: float, plans: Plans | None = None
    ) -> _engine.Group:
        """A native group of these ranks of the group with channel `parent`. timeout: seconds for each collective."""
        ...

    def encoding(self, native: _engine.Group) -> tuple[int, int]:
        """The engine's number of the codec that the cost model chooses for sums and means of this group, and from how
        many bytes on. Collective for the first time in a group."""
        ...

    def forget(self, channel: int) -> None:
        """Forget the group with this channel, which was closed."""
        ...

    def notify(self, operation: int, callback: Callable[[], None]) -> None:
        """Call `callback` once when this NOTIFY operation has finished, well or not."""
        ...

    def dropped(self, operation: Ending) -> None:
        """Keep an operation that nobody holds any more, and what it uses, alive until it is over."""
        ...
