"""How long a rank waits at most. What the script says wins; else the variables hold; else it is torch's half hour."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.settings.settings import Settings

DEFAULT_TIMEOUT = 1800.0
"""Seconds, as in torch.distributed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: for the ranks to meet, and for each operation of the group that they then are."""

    meeting: float
    operation: float

    @classmethod
    def of(cls, settings: Settings, said: float | None = None) -> Limits:
        """said: the timeout in seconds that the script gave for both; None where it gave none."""
        operation = said or settings.timeout or DEFAULT_TIMEOUT
        return cls(said or settings.start_timeout or operation, operation)
