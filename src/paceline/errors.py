"""Every error that Paceline raises on purpose. One `except CommunicationError` catches all of communication."""

from __future__ import annotations

from paceline._engine import Aborted, CommunicationError, Mismatch, PeerLost, Timeout
from paceline.settings.settings import ConfigurationError

__all__ = [
    "Aborted",
    "CommunicationError",
    "ConfigurationError",
    "Mismatch",
    "PeerLost",
    "RendezvousError",
    "Timeout",
]


class RendezvousError(CommunicationError):
    """The ranks could not meet: somebody is missing, unreachable, or not who they claim to be."""
