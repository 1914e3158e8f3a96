"""The longest waits of a rank. The script's timeout wins over the environment's, and that over torch's half hour."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.settings.settings import Settings

DEFAULT_TIMEOUT = 1800.0
"""Seconds that an operation may take where neither script nor environment sets a limit, as in torch.distributed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The seconds that the ranks have to meet (`meeting`), and that each operation may then take (`operation`)."""

    meeting: float
    operation: float

    @classmethod
    def of(cls, settings: Settings, timeout: float | None = None) -> Limits:
        """Return the limits of a job. timeout: the seconds that the script set for both; None where it set none."""
        operation = timeout or settings.timeout or DEFAULT_TIMEOUT
        return cls(timeout or settings.start_timeout or operation, operation)
