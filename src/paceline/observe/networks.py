"""The networks that a job had while it ran, as far as it knew."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.topology import Topology


@dataclass(frozen=True, slots=True)
class Network:
    """The network that plans were made for from `since_ns` on (CLOCK_REALTIME in ns)."""

    since_ns: int
    topology: Topology
