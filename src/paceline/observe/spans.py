"""Spans of time that may overlap."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[float, float]
"""The begin and the end of something; both are in the same unit."""


def covered(spans: Iterable[Span]) -> float:
    """Return for how long at least one of the spans was under way. A span that ends before it begins covers nothing."""
    total, until = 0.0, float("-inf")
    for first, last in sorted(spans):
        if last > max(first, until):
            total += last - max(first, until)
            until = last
    return total
