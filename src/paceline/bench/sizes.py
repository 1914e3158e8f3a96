"""Sizes as people write them, and the sweep from one to another."""

from __future__ import annotations

import re

from paceline.bench.ranks import pattern

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

DIVIDED = ("all_gather", "reduce_scatter", "all_to_all")


def parse(text: str) -> int:
    """Bytes in `text`, such as 8, 64M, 1.5K or 2GiB (powers of 1024); ValueError says what would be right."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match:
        raise ValueError(f"{text!r} is not a size; write bytes, or a number with K, M or G, such as 64M")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def show(size: int) -> str:
    """The shortest exact form: 65536 is 64K."""
    for unit in ("G", "M", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def sweep(begin: int, end: int, factor: float) -> list[int]:
    """Bytes: `begin`, times `factor` while below `end`, then `end` itself, even where no step hits it."""
    if factor <= 1:
        raise ValueError(f"the factor between sizes is {factor:g}; it must be above 1")
    if not 0 < begin <= end:
        raise ValueError(f"the sizes go from {begin} to {end} bytes; the first must be above 0 and not above the last")
    sizes, size = [], float(begin)
    while size < end:
        sizes.append(int(size))
        size *= factor
    return [*dict.fromkeys(sizes), end]


def elements(size: int, dtype: str, collective: str, ranks: int) -> int:
    """S in elements for about `size` bytes: at least one, and a multiple of the ranks where it is divided."""
    if collective == "barrier":
        return 0
    count = size // pattern.storage(dtype).itemsize
    if collective in DIVIDED:
        return max(ranks, count // ranks * ranks)
    return max(1, count)


def in_bytes(count: int, dtype: str) -> int:
    """Bytes of `count` elements."""
    return count * pattern.storage(dtype).itemsize
