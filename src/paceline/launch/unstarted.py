"""Reports what torchrun waits for while it has started no rank here, because torchrun itself prints nothing."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from paceline.host_name import host_name
from paceline.launch.arguments import Arguments
from paceline.launch.relay import Relay
from paceline.launch.stderr import Collector
from paceline.rendezvous.dial import TcpAddress, connect, explain
from paceline.rendezvous.reminder import Reminder

_PROBE_SECONDS = 1.0
"""Seconds that the attempt to connect may take."""
_PORTS = {"static": 29500}
_DEFAULT_PORT = 29400  # the port of torchrun's other backends


class Unstarted:
    """A `Listener` that wraps `collector`.

    Until a rank has reported there, `reminder` prints from time to time what `problem` returns.
    """

    def __init__(self, collector: Collector, reminder: Reminder, problem: Callable[[], str]) -> None:
        self._collector, self._reminder, self._problem = collector, reminder, problem

    @property
    def holding(self) -> bool:
        """True if the collector holds back an unfinished line."""
        return self._collector.holding

    @property
    def relay(self) -> Relay:
        """The collector's relay."""
        return self._collector.relay

    def handle(self, key: selectors.SelectorKey) -> None:
        """Let the collector handle a ready descriptor."""
        self._collector.handle(key)

    def release(self) -> None:
        """Let the collector release lines, and print the reminder if no rank has started."""
        self._collector.release()
        if all(stream.rank < 0 for stream in self._collector.streams):
            self._reminder.check(self._problem)


def waits_for(arguments: Arguments, environ: Mapping[str, str]) -> str:
    """Say in three sentences what keeps torchrun from starting ranks in a job on several machines.

    It tries to connect to the meeting point.
    """
    nodes = arguments.value("--nnodes") or environ.get("PET_NNODES", "")
    place = _meeting_place(arguments, environ)
    try:
        connect(place, _PROBE_SECONDS).close()
        found = "It answers there: start the same command on the other machines."
    except OSError as error:
        found = f"This machine cannot connect there: {explain(error, place)}."
    return (
        f"no rank has started on {host_name()}. torchrun waits until {nodes} machines (--nnodes) have met at "
        f"{place.host}:{place.port}. {found}"
    )


def _meeting_place(arguments: Arguments, environ: Mapping[str, str]) -> TcpAddress:
    def value_of(option: str) -> str:
        return arguments.value(f"--{option}") or environ.get("PET_" + option.replace("-", "_").upper(), "")

    backend = value_of("rdzv-backend") or "static"
    endpoint = value_of("rdzv-endpoint")
    if not endpoint and backend == "static":
        endpoint = f"{value_of('master-addr') or '127.0.0.1'}:{value_of('master-port') or _PORTS['static']}"
    parts = urlsplit(f"//{endpoint}")
    return TcpAddress(parts.hostname or "localhost", parts.port or _PORTS.get(backend, _DEFAULT_PORT))
