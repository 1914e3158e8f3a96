"""Formats figures for tables: three significant digits and a unit, or a dash for an unknown value."""

from __future__ import annotations

import math
from decimal import Decimal

DASH = "–"
"""Stands for an unknown value."""
_DIGITS = 6
"""Significant digits that `in_full` leaves of a number that is not whole."""


def number(value: float | None) -> str:
    """Format a number with three significant digits, and whole thousands apart: "0.0123", "12.3", "1234", "13 560"."""
    if value is None:
        return DASH
    if value == 0:
        return "0"
    digits = f"{value:.3g}"
    if abs(float(digits)) >= 10_000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.0f}" if "e+" in digits else plain(digits)


def plain(digits: str) -> str:
    """Return the same digits of a number without an exponent."""
    return f"{Decimal(digits):f}" if "e" in digits else digits


def in_full(value: float) -> str:
    """Format a number that somebody set or may set: whole numbers to the last digit, and no exponent: "1000000"."""
    digits = max(_DIGITS, len(str(int(abs(value))))) if math.isfinite(value) else 1
    return plain(f"{value:.{digits}g}")


def percent(share: float | None) -> str:
    """Format a share from 0 to 1 as a percentage: "12.3 %"."""
    return DASH if share is None else f"{100 * share:.1f} %"


def elsewhere(count: int, ranks: int) -> str:
    """Return a phrase that says how many of a job's ranks are on other machines."""
    return f"{count} of {ranks} ranks {'is on another machine' if count == 1 else 'are on other machines'}"


def size(value: float | None) -> str:
    """Format a number of bytes: "512 B", "1.23 MB"."""
    if value is None:
        return DASH
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} TB"
