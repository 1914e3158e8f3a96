"""Checks of numbers on a command line, as callbacks of options: what fails is one sentence."""

from __future__ import annotations

import math

from paceline.cli.output_file import UsageError
from paceline.cpu.budget import available
from paceline.launch.resources import plausible


def finite(value: float) -> float:
    """Refuses what is no number, or larger than any."""
    if not math.isfinite(value):
        raise UsageError(f"{value:g} is no number of seconds, bytes or anything else; write a finite one")
    return value


def ranks_here(value: int | None) -> int | None:
    """Refuses more ranks than anybody means to start on this machine."""
    try:
        plausible(value or 0, available())
    except ValueError as error:
        raise UsageError(str(error)) from None
    return value
