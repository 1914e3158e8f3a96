"""What a group needs of the process that it lives in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from paceline import _engine
from paceline.observe.annotations import Annotations
from paceline.observe.observer import Source
from paceline.plan.wire import PlanEntry
from paceline.rendezvous import Member
from paceline.settings.settings import Settings
from paceline.topology import Topology

Entries = Mapping[str, Sequence[PlanEntry]]
"""The plans of a group in the engine's form, by collective."""

Plans = Callable[[Topology, Sequence[int], str | None], Entries]
"""`plans(topology, ranks, algorithm)` makes the plans of a group, as `paceline.runtime.plans.plans` does."""


class Ending(Protocol):
    """An operation that may still be under way."""

    def done(self) -> bool:
        """Whether it is over, well or not; never waits."""
        ...


class Members(Protocol):
    """The members of a group."""

    @property
    def members(self) -> Sequence[Member]:
        """The members, in rank order."""
        ...


class Replanner(Protocol):
    """What keeps the plans of a group to its network, `paceline.adapt.replanner.Replanner`."""

    def expected(self, call: tuple[str, int], /) -> float:
        """The seconds that this call, a collective and its bytes, should take."""
        ...

    def changed(self, calls: Sequence[tuple[str, int]], seconds: NDArray[np.float64]) -> float | None:
        """How many times as long as usual these calls took, if the network should be measured.

        calls: the collective and the bytes of each. seconds: how long each took; negative where that is not known.
        """
        ...

    def plan_again(self, ratio: float, between: _engine.Group) -> None:
        """Measure the network in the group `between`, and plan for it. Collective; nothing may be under way."""
        ...


class Host(Protocol):
    """The owner of the engine that groups share, `paceline.runtime.runtime.Runtime`. A test may have its own."""

    @property
    def settings(self) -> Settings:
        """The settings of this process."""
        ...

    @property
    def annotations(self) -> Annotations:
        """What this rank's figures learn beside what the engine counts."""
        ...

    @property
    def plans(self) -> Plans:
        """What makes the plans of groups for which nobody says otherwise."""
        ...

    @property
    def devices(self) -> _engine.Devices:
        """The CUDA devices of this process; the driver is opened when they are first asked for."""
        ...

    @property
    def usable(self) -> bool:
        """Whether groups can be made: not closed, and not inherited by a fork."""
        ...

    def membership(self, channel: int) -> Members:
        """Who is in the group with this channel. Raises CommunicationError if there is none."""
        ...

    def subgroup(
        self, parent: int, ranks: Sequence[int], channel: int, timeout: float, plans: Plans | None = None
    ) -> _engine.Group:
        """A native group of these ranks of the group with channel `parent`. timeout: seconds for each collective."""
        ...

    def replanner(self, native: _engine.Group, timeout: float) -> Replanner | None:
        """What keeps the plans of this group to its network; None on one machine."""
        ...

    def encoding(self, native: _engine.Group) -> tuple[int, int]:
        """The engine's number of the codec that the cost model chooses for sums and means of this group, and from how
        many bytes on. Collective for the first time in a group."""
        ...

    def exact(self, channel: int) -> tuple[int, int]:
        """The engine's number of the codec of parameters that are broadcast in this group, and from which size on."""
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

    def show(self, channel: int, coordinator: Source) -> None:
        """Let others see a coordinator. channel: that of the group that carries its data."""
        ...

    def hide(self, channel: int) -> None:
        """Let others no longer see the coordinator on this channel, which closes."""
        ...
