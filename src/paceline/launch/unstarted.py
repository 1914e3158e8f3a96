"""Says what torchrun waits for while it has started no rank on this machine: itself it does not say a word."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from paceline.launch.arguments import Arguments
from paceline.launch.stderr import Collector
from paceline.rendezvous.dial import TcpAddress, connect, explain
from paceline.rendezvous.reminder import Reminder

_PROBE_SECONDS = 1.0
_PORTS = {"static": 29500}
_DEFAULT_PORT = 29400  # of torchrun's other backends


class Unstarted:
    """Listens as `collector` does. Until a rank has reported there, `reminder` says now and then what `problem` is."""

    def __init__(self, collector: Collector, reminder: Reminder, problem: Callable[[], str]) -> None:
        self._collector, self._reminder, self._problem = collector, reminder, problem

    @property
    def holding(self) -> bool:
        return self._collector.holding

    @property
    def listening(self) -> bool:
        return self._collector.listening

    def handle(self, key: selectors.SelectorKey) -> None:
        """As the collector's."""
        self._collector.handle(key)

    def release(self) -> None:
        """As the collector's."""
        self._collector.release()
        if all(voice.rank < 0 for voice in self._collector.voices):
            self._reminder.check(self._problem)


def waits_for(arguments: Arguments, environ: Mapping[str, str]) -> str:
    """What keeps torchrun from starting ranks in a job on several machines; tries whether the place to meet answers."""
    nodes = arguments.value("--nnodes") or environ.get("PET_NNODES", "")
    place = _meeting_place(arguments, environ)
    try:
        connect(place, _PROBE_SECONDS).close()
        found = "which answers: start the same command on the others"
    except OSError as error:
        found = f"but {explain(error, place)}"
    return (
        f"no rank has started on {socket.gethostname()}: torchrun waits until {nodes} machines (--nnodes) "
        f"have met at {place.host}:{place.port}, {found}"
    )


def _meeting_place(arguments: Arguments, environ: Mapping[str, str]) -> TcpAddress:
    def said(option: str) -> str:
        return arguments.value(f"--{option}") or environ.get("PET_" + option.replace("-", "_").upper(), "")

    backend = said("rdzv-backend") or "static"
    endpoint = said("rdzv-endpoint")
    if not endpoint and backend == "static":
        endpoint = f"{said('master-addr') or '127.0.0.1'}:{said('master-port') or _PORTS['static']}"
    parts = urlsplit(f"//{endpoint}")
    return TcpAddress(parts.hostname or "localhost", parts.port or _PORTS.get(backend, _DEFAULT_PORT))
