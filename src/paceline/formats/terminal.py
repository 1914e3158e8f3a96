"""Tables and trees in the terminal."""

from __future__ import annotations

from rich.console import Console, RenderableType

_WIDEST = 10_000
"""Characters of the longest line."""


def show(console: Console, what: RenderableType) -> None:
    """Print `what` in full: a narrow window wraps lines that are too long for it; they are not cut here."""
    console.width = max(console.width, Console(width=_WIDEST).measure(what).maximum)
    console.print(what)
