"""The groups of a process: the members of each, their place in the network, and the plans that serve them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from paceline import _engine
from paceline._engine import Engine
from paceline.errors import CommunicationError, refusal
from paceline.group.host import Entries, Plans
from paceline.plan.streams import stream_rates
from paceline.rendezvous import Member
from paceline.runtime.encodings import NO_ENCODING, Encoding, Encodings, everywhere
from paceline.runtime.membership import Membership
from paceline.runtime.network import Measure, Network, Plan
from paceline.runtime.placement import Placements, given
from paceline.runtime.plans import tell
from paceline.settings.names import AUTO, LOSSLESS
from paceline.settings.settings import Settings
from paceline.topology.discover import Placement

if TYPE_CHECKING:
    from paceline.observe.networks import Network as KnownNetwork

Failing = Callable[[CommunicationError, str, bool], None]
"""`failed(error, culprit, alone)` is called before `error` is raised. culprit: what peers call the rank to blame,
"" if it is not a single one. alone: whether the group goes on."""
_BY_SETTING, _BY_CALL = "PACELINE_COMPRESS=auto", 'codec="auto"'


class Followed(NamedTuple):
    """The network that a group's plans were made for, and what makes them for another one."""

    placement: Placement
    plan: Plan


class Groups:
    """The groups of one process. plans: makes the plans of those for which nobody says otherwise. Not thread-safe."""

    def __init__(self, settings: Settings, plans: Plans, network: Network) -> None:
        self.plans = plans
        self._between = network
        self._algorithm = settings.algorithm
        self._compress = settings.compress
        self._given = given(settings.topology)
        self._placements: Placements | None = None  # known with the first group
        self._memberships: dict[int, Membership] = {}
        self._encodings = Encodings(settings.algorithm)

    @property
    def network(self) -> str:
        """The word that other ranks hear about this process's topology file; "" if it was given none."""
        return self._given.word if self._given is not None else ""

    @property
    def networks(self) -> Sequence[KnownNetwork]:
        """The networks that plans were made for, the present one last; empty before the first group."""
        return tuple(self._placements.networks) if self._placements is not None else ()

    def check(self, members: Sequence[Member]) -> None:
        """Check the members of what would be the first group. Raises RendezvousError if they cannot be the job."""
        if self._placements is None:
            Placements(self._given, members)

    def make(
        self,
        engine: Engine,
        channel: int,
        membership: Membership,
        timeout: float,
        plans: Plans | None,
        failed: Failing,
    ) -> _engine.Group:
        """Make a native group. plans: makes its plans, None for the usual ones. failed: see `Failing`.

        Raises RendezvousError if it is the first group and these cannot be the ranks of the job.
        """
        if self._placements is None:
            self._placements = Placements(self._given, membership.members)
        here = self._placements.of(membership.members)
        entries = (plans or self.plans)(here.topology, here.ranks, self._algorithm)
        group = engine.group(channel, membership.rank, list(membership.handles), timeout, entries, failed)
        if not membership.one_machine:
            group.set_pace(*stream_rates(here, entries, membership.rank))
            group.set_machines(membership.machines)
            if self._compress != AUTO:  # which waits for what is measured
                group.set_codec(_engine.CODECS[self._compress])
        elif self._compress == AUTO and not self._memberships and membership.rank == 0:
            self._encodings.choose(group, here.topology, _BY_SETTING)
        self._memberships[channel] = membership
        return group

    def survey(self, native: _engine.Group, measure: Measure, new: bool) -> None:
        """Measure the network of the job if no file describes it, and plan for what was found; rank 0 logs the choice.

        This group and all later ones know the result. Collective, right after a group between machines was made. new:
        whether it is the first group of this process; nothing is measured unless it is the first one on all ranks.
        """
        membership = self.membership(native.channel)
        assert self._placements is not None
        here, news = self._placements.of(membership.members), ""
        if not self._placements.known and self._algorithm is None and _everywhere(native, new):
            found, news = self._between.learned(here, *measure(native, False))
            if news:
                here = found
                self._placements.learn(here, membership.members)
                native.set_plans(self._planned(native, membership, here))
        if new and membership.rank == 0:
            said = any(member.speed for member in membership.members)  # otherwise no link was taken for anything
            tell(here.topology, news if said else "", self._algorithm)
        if self._compress == AUTO:
            native.set_codec(*self._encodings.choose(native, here.topology, _BY_SETTING if new else ""))

    def encoding(self, native: _engine.Group) -> Encoding:
        """Return the cost model's choice for this group. The first call is collective, and rank 0 logs the choice."""
        chosen = self._encodings.of(native.channel)
        if chosen is None:
            assert self._placements is not None
            here = self._placements.of(self.membership(native.channel).members)
            chosen = self._encodings.choose(native, here.topology, _BY_CALL)
        return chosen

    def exact(self, channel: int) -> Encoding:
        """The codec of parameters that are broadcast in this group, as PACELINE_COMPRESS says: `lossless` or none."""
        if self._compress == AUTO:
            return self._encodings.exact(channel)
        return (_engine.CODECS[LOSSLESS], 0) if self._compress == LOSSLESS else NO_ENCODING

    def membership(self, channel: int) -> Membership:
        """Return the members of the group with this channel. Raises CommunicationError if there is none."""
        try:
            return self._memberships[channel]
        except KeyError:
            raise refusal(f"this process has no group with channel {channel}") from None

    def placement(self, channel: int) -> Placement:
        """The network between the members of the group with this channel, as it is known now."""
        assert self._placements is not None
        return self._placements.of(self.membership(channel).members)

    def forget(self, channel: int) -> None:
        """Forget the group with this channel, which was closed."""
        self._memberships.pop(channel, None)
        self._encodings.forget(channel)

    def clear(self) -> None:
        """Forget all groups, which were closed."""
        self._memberships.clear()
        self._encodings.clear()

    def followed(self, native: _engine.Group, membership: Membership) -> Followed | None:
        """Return this group's network and the planner for another; None on one machine, and with a given algorithm."""
        if membership.one_machine or self._algorithm is not None:
            return None
        assert self._placements is not None
        plan = partial(self._planned_again, native, membership)
        return Followed(self._placements.of(membership.members), plan)

    def _planned(self, native: _engine.Group, membership: Membership, found: Placement) -> Entries:
        """Make plans for a group whose network was measured, and set the pace of its streams."""
        entries = self.plans(found.topology, found.ranks, None)
        native.set_pace(*stream_rates(found, entries, membership.rank))
        return entries

    def _planned_again(self, native: _engine.Group, membership: Membership, found: Placement) -> Entries:
        """The same for a group that is in use, whose codec may change, too."""
        assert self._placements is not None
        if found.topology.world == self._placements.topology.world:
            self._placements.note(found.topology)
        if self._encodings.of(native.channel) is not None:
            chosen = self._encodings.choose(native, found.topology, _BY_SETTING if self._compress == AUTO else _BY_CALL)
            if self._compress == AUTO:
                native.set_codec(*chosen)
        return self._planned(native, membership, found)


def _everywhere(native: _engine.Group, mine: bool) -> bool:
    """Return whether `mine` is true on all ranks."""
    word = np.array([float(mine)])
    everywhere("MIN", native, word)
    return bool(word[0])
