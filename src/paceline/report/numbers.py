"""Figures as tables show them: three digits and a unit, or a dash where there is nothing to tell."""

from __future__ import annotations

DASH = "–"


def number(value: float | None) -> str:
    """Three digits: "0.0123", "12.3", "12300"."""
    if value is None:
        return DASH
    if value == 0:
        return "0"
    digits = f"{value:.3g}"
    return f"{value:.0f}" if "e+" in digits else digits if "e" not in digits else f"{value:.2e}"


def percent(share: float | None) -> str:
    """Of a share: "12.3 %"."""
    return DASH if share is None else f"{100 * share:.1f} %"


def elsewhere(count: int, ranks: int) -> str:
    """That so many of a job's ranks are on other machines than this one."""
    return f"{count} of {ranks} ranks {'is on another machine' if count == 1 else 'are on other machines'}"


def size(value: float | None) -> str:
    """Bytes: "512 B", "1.23 MB"."""
    if value is None:
        return DASH
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} TB"
