"""Every error that Paceline raises on purpose. One `except CommunicationError` catches all of communication."""

from __future__ import annotations

import os
from typing import NamedTuple

from paceline._engine import Aborted, CommunicationError, Mismatch, PeerLost, Timeout
from paceline.host_name import host_name

__all__ = ["Aborted", "CommunicationError", "ConfigurationError", "Mismatch", "PeerLost", "RendezvousError", "Timeout"]


class ConfigurationError(ValueError):
    """An environment variable or argument has an impossible value; the message names it and says what is right."""


class Culprit(NamedTuple):
    """The one rank that is to blame for an error; what is not known is None."""

    rank: int | None = None
    host: str | None = None
    pid: int | None = None


NOBODY = Culprit()
"""Nobody knows who is to blame, or it is more than one rank."""


class RendezvousError(CommunicationError):
    """The ranks could not meet: a rank is missing, unreachable, or not the rank that it claims to be."""

    def __init__(self, message: str, culprit: Culprit = NOBODY) -> None:
        super().__init__(message)
        self.rank, self.host, self.pid = culprit
        self.operation = "rendezvous"

    @property
    def culprit(self) -> Culprit:
        """The rank that is to blame, as the fields `rank`, `host` and `pid` say."""
        return Culprit(self.rank, self.host, self.pid)


def refusal(message: str, rank: int | None = None) -> CommunicationError:
    """An error for which this process itself is to blame. rank: its number in the job, where that is known."""
    error = CommunicationError(message)
    error.rank, error.host, error.pid = rank, host_name(), os.getpid()
    return error


def refuse_forked(pid: int) -> None:
    """Raise CommunicationError unless this is the process `pid`, whose links a forked child inherits but cannot use."""
    if pid != os.getpid():
        raise refusal(
            f"this process was forked from process {pid}, whose Paceline links it cannot use: "
            "communicate in the parent, or start workers with the spawn method"
        )
