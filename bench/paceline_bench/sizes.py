"""Sizes in their shortest form, and the sweep from one size to another."""

from __future__ import annotations

from paceline_bench.ranks import pattern

DIVIDED = ("all_gather", "reduce_scatter", "all_to_all")
"""The collectives whose larger buffer is divided among the ranks."""


def show(size: int) -> str:
    """Return the shortest exact form of a number of bytes: 65536 is "64K"."""
    for unit, power in (("G", 30), ("M", 20), ("K", 10)):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)


def sweep(begin: int, end: int, factor: float) -> list[int]:
    """Return sizes in bytes: `begin`, multiplied by `factor` while below `end`, and then `end` itself.

    Raises ValueError for a factor of 1 or less and for sizes out of order.
    """
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
    """Return S in elements for about `size` bytes: at least one, and a multiple of the ranks if they divide it."""
    if collective == "barrier":
        return 0
    count = size // pattern.storage(dtype).itemsize
    if collective in DIVIDED:
        return max(ranks, count // ranks * ranks)
    return max(1, count)


def in_bytes(count: int, dtype: str) -> int:
    """Return the bytes of `count` elements."""
    return count * pattern.storage(dtype).itemsize
