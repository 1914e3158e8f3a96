"""Checks of numbers on the command line, as callbacks of options; an invalid number gives one sentence."""

from __future__ import annotations

import math

from paceline.cli.output_file import UsageError
from paceline.cpu.budget import available
from paceline.launch.resources import plausible


def finite(value: float) -> float:
    """Return the value. Raises UsageError if it is infinite or not a number."""
    if not math.isfinite(value):
        raise UsageError(f"{value:g} is not a finite number")
    return value


def ranks_here(value: int | None) -> int | None:
    """Return the value. Raises UsageError for more ranks than anybody would start on this machine."""
    try:
        plausible(value or 0, available())
    except ValueError as error:
        raise UsageError(str(error)) from None
    return value
