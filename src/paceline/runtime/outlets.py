"""The outlets through which people see a rank without asking it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from paceline import _engine
from paceline.monitor.monitor import Monitor
from paceline.settings.settings import Settings
from paceline.topology import Topology

Pair = Callable[[tuple[int, int], int], _engine.Group]
"""`pair(ranks, channel)` makes a group of two ranks of the job."""


class Outlets(Protocol):
    """The report, the metrics and a verdict in the log, as far as the settings ask for them."""

    def begin(self, pair: Pair, topology: Callable[[], Topology | None], /) -> None:
        """Start what is asked for; further calls do nothing. Collective over the job.

        topology: returns the network of the job as it is known now.
        """
        ...

    def close(self) -> None:
        """Finish them. May be called while another thread uses the monitor."""
        ...


OutletsOf = Callable[[Settings, Monitor], Outlets]
"""Makes those of a rank, `paceline.process.outlets.Outlets`."""
