"""The services that a coordinator needs from the process that it lives in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from paceline import _engine
from paceline.group import host
from paceline.group.group import Group
from paceline.observe.observer import Source
from paceline.settings.settings import Settings


class Members(Protocol):
    """The members of a group."""

    @property
    def machines(self) -> Sequence[int]:
        """The machine of every member: a number that those on one machine share."""
        ...


class Following(Protocol):
    """An object that adapts the plans of a coordinator to the network."""

    def close(self) -> None:
        """End; the coordinator has been closed."""
        ...


class Host(host.Host, Protocol):
    """That of groups, and more, `paceline.runtime.runtime.Runtime`."""

    @property
    def settings(self) -> Settings:
        """The settings of this process."""
        ...

    @property
    def plans(self) -> host.Plans:
        """The default maker of plans for groups."""
        ...

    @property
    def usable(self) -> bool:
        """True if groups can be made: the host is not closed, and was not inherited by a fork."""
        ...

    def membership(self, channel: int) -> Members:
        """Return the members of the group with this channel. Raises CommunicationError if there is none."""
        ...

    def exact(self, channel: int) -> tuple[int, int]:
        """The engine's number of the codec of parameters that are broadcast in this group, and from which size on."""
        ...

    def follow(self, coordinator: _engine.Coordinator, data: _engine.Group, timeout: float) -> Following | None:
        """Return an object that adapts the plans of `data` to its network where the coordinator stops, or None.

        timeout: the seconds for each message while links are measured.
        """
        ...

    def show(self, channel: int, coordinator: Source) -> None:
        """Let others see a coordinator. channel: that of the group that carries its data."""
        ...

    def hide(self, channel: int) -> None:
        """Let others no longer see the coordinator on this channel, which closes."""
        ...


def host_of(group: Group) -> Host:
    """The process that a group lives in, which is always one that coordinators can live in, too."""
    return cast(Host, group.runtime)
