"""The waits of the engine, in the form in which it tells them."""

from __future__ import annotations

from collections.abc import Sequence

Missing = tuple[str, str, str, float]
"""A missing rank: what to call it, the operation in which it was last heard of, the line where it said it was, and how
many seconds ago it said so. Each text may be empty."""
Wait = tuple[int, float, float, int, str, Sequence[Missing]]
"""A row of `Engine.waits()`: the operation's id, the seconds that it has waited, the seconds to its deadline, the
thread that waits or 0, its description, and the missing ranks."""
