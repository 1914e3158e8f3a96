"""The outlets through which people see a rank without asking it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from paceline.monitor.monitor import Monitor
from paceline.observe.networks import Network
from paceline.settings.settings import Settings


class Outlets(Protocol):
    """The report, the trace, the metrics and a verdict in the log, as far as the settings ask for them."""

    def begin(self, networks: Callable[[], Sequence[Network]], fate: Callable[[int], str], /) -> None:
        """Start what is asked for; further calls do nothing.

        networks: returns those that the job has had so far, the present one last. fate: returns what has become of a
        rank of the job, in words; "" while it is there.
        """
        ...

    def failed(self) -> None:
        """Write the report soon: a group has failed, and the process may be about to end."""
        ...

    def close(self) -> None:
        """Finish them. May be called while another thread uses the monitor."""
        ...


OutletsOf = Callable[[Settings, Monitor], Outlets]
"""Makes those of a rank, `paceline.process.outlets.Outlets`."""
