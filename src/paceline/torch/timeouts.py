"""The limits that hold in a process group of torch."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from paceline.settings.limits import Limits
from paceline.settings.settings import Settings


def limits(settings: Settings, timeout: timedelta) -> Limits:
    """The limits for a group. timeout: as torch hands it on, which is its own 30 minutes if the script names none."""
    return Limits.of(settings, None if timeout == dist.default_pg_timeout else timeout.total_seconds())
