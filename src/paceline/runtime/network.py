"""The network between machines, as a process needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from paceline import _engine
from paceline.group.host import Entries, Host
from paceline.observe.annotations import Annotations
from paceline.rendezvous import Member
from paceline.topology.discover import Placement
from paceline.topology.measured import Measured

Measure = Callable[[_engine.Group, bool], tuple[Placement, Measured]]
"""`measure(group, switches)` measures the links between the machines of a native group; see `Network.links`."""
Plan = Callable[[Placement], Entries]
"""Makes the plans of the group for the network that was measured."""


class Owner(Host, Protocol):
    """That of groups, and what tells this rank's figures which collectives are Paceline's own."""

    @property
    def annotations(self) -> Annotations:
        """The part of this rank's figures that the engine does not count."""
        ...


class Following(Protocol):
    """An object that adapts the plans of a coordinator to the network."""

    def close(self) -> None:
        """End; the coordinator has been closed."""
        ...


class Network(Protocol):
    """Looks at networks for a process, as `paceline.process.network` does."""

    def links(
        self, host: Host, native: _engine.Group, members: Sequence[Member], timeout: float, switches: bool, /
    ) -> tuple[Placement, Measured]:
        """The network between the members' machines as it is now, and what was measured. Collective.

        timeout: seconds for each message. switches: whether to look for links that several machines share.
        """
        ...

    def learned(self, assumed: Placement, found: Placement, measured: Measured, /) -> tuple[Placement, str]:
        """The network to plan for, and what is new in words; "" if it is the assumed one."""
        ...

    def follow(self, host: Owner, native: _engine.Group, placement: Placement, measure: Measure, plan: Plan, /) -> None:
        """Keep the plans of a group to its network: look in the thread that begins a large call, now and then."""
        ...

    def follow_coordinator(
        self,
        host: Owner,
        native: _engine.Group,
        placement: Placement,
        measure: Measure,
        plan: Plan,
        coordinator: _engine.Coordinator,
        /,
    ) -> Following:
        """The same for a group of a coordinator: look in a thread, where the coordinator stops."""
        ...
