"""Checks of what a command is asked for, each of which gives one sentence; for numbers, as callbacks of options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.util import find_spec

from paceline.cli.usage import UsageError
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


def installed(packages: Mapping[str, str]) -> None:
    """Raise UsageError unless these modules are installed. packages: each module, and the package that holds it."""
    missing = [package for module, package in packages.items() if find_spec(module) is None]
    if missing:
        raise UsageError(f"needs {' and '.join(missing)}; pip install {' '.join(missing)}")
