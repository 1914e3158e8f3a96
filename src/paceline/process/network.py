"""Looks at the network between machines: `paceline.runtime.network.Network`.

What does it is loaded where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline import _engine
from paceline.group.host import Host
from paceline.rendezvous import Member
from paceline.runtime.network import Following, Measure, Owner, Plan
from paceline.topology.discover import Placement
from paceline.topology.measured import Measured


def links(
    host: Host, native: _engine.Group, members: Sequence[Member], timeout: float, switches: bool
) -> tuple[Placement, Measured]:
    """See `paceline.adapt.remeasure.links`."""
    from paceline.adapt import remeasure

    return remeasure.links(host, native, members, timeout, switches)


def learned(assumed: Placement, found: Placement, measured: Measured) -> tuple[Placement, str]:
    """See `paceline.adapt.network.AssumedNetwork.measured`."""
    from paceline.adapt.network import AssumedNetwork

    return AssumedNetwork(assumed).measured(found, measured)


def follow(host: Owner, native: _engine.Group, placement: Placement, measure: Measure, plan: Plan) -> None:
    """See `paceline.adapt.adaptation.Adaptation.count_calls`."""
    from paceline.adapt.adaptation import Adaptation
    from paceline.adapt.replanner import Replanner

    Adaptation(host, native, Replanner(native, placement, measure, plan)).count_calls()


def follow_coordinator(
    host: Owner,
    native: _engine.Group,
    placement: Placement,
    measure: Measure,
    plan: Plan,
    coordinator: _engine.Coordinator,
) -> Following:
    """See `paceline.adapt.coordinator_stops.CoordinatorStops`."""
    from paceline.adapt.adaptation import Adaptation
    from paceline.adapt.coordinator_stops import CoordinatorStops
    from paceline.adapt.replanner import Replanner

    adaptation = Adaptation(host, native, Replanner(native, placement, measure, plan))
    adaptation.count_batches()
    return CoordinatorStops(coordinator, adaptation.look, host.notify)
