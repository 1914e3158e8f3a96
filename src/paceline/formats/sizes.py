"""Write sizes and times for sentences and tables, and parse sizes as people write them."""

from __future__ import annotations

import re

from paceline.formats.numbers import number, plain

MOST_BYTES = 1 << 60
"""Bytes that `parse_bytes` accepts at most."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_bytes(text: str) -> int:
    """Return the bytes of a text such as 8, 64M, 1.5K or 2GiB (powers of 1024).

    Raises ValueError, which says what would be right, unless they are from 1 to MOST_BYTES.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r:.80} is not a size; write bytes, or a number with K, M or G, such as 64M")
    nbytes = float(match[1]) * _UNITS[match[2].upper()]
    if not 1 <= nbytes <= MOST_BYTES:
        raise ValueError(f"{text!r:.80} is no size that a buffer has; write 1 byte or more, such as 64M")
    return int(nbytes)


def show_bytes(nbytes: int) -> str:
    """Return a text such as "256 KiB", with three digits where the number is not whole."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.{max(3, len(str(nbytes >> power)))}g} {unit}"
    return "1 byte" if nbytes == 1 else f"{nbytes} bytes"


def show_seconds(seconds: float) -> str:
    """Return a text with three digits in the unit that fits: "1.5 s", "28 us"."""
    rounded = float(f"{seconds:.3g}")  # 999.9 us are 1 ms
    for unit, least in (("s", 1.0), ("ms", 1e-3)):
        if rounded >= least:
            return f"{number(seconds / least)} {unit}"
    return f"{number(seconds * 1e6)} us"


def show_duration(seconds: float) -> str:
    """Return a text with three digits, always in seconds, and no exponent: "0.0517 s", "31.2 s", "1920 s"."""
    return f"{plain(f'{seconds:.3g}')} s" if seconds < 100 else f"{seconds:.0f} s"
