"""The engine's waits, as it tells them."""

from __future__ import annotations

from collections.abc import Sequence

Missing = tuple[str, str, str, float]
"""Who, in what it was last heard of, at which line it said it was, how many seconds ago; words may be empty."""
Wait = tuple[int, float, float, int, str, Sequence[Missing]]
"""As `Engine.waits()` gives them: operation, seconds, seconds to its deadline, waiting thread or 0, description, who is
missing."""
