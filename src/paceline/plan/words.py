"""Sizes and times as sentences and tables show them."""

from __future__ import annotations


def show_bytes(nbytes: int) -> str:
    """ "256 KiB", or three digits where it does not come out even."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.{max(3, len(str(nbytes >> power)))}g} {unit}"
    return "1 byte" if nbytes == 1 else f"{nbytes} bytes"


def show_seconds(seconds: float) -> str:
    """Three digits with the unit that fits."""
    for unit, least in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= least:
            return f"{seconds / least:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
