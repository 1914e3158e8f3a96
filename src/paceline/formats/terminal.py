"""Tables and trees in the terminal."""

from __future__ import annotations

from rich.console import Console, RenderableType

_WIDEST = 10_000


def show(console: Console, what: RenderableType) -> None:
    """Print it whole: lines that are too long for a narrow window or a pipe are wrapped there, not cut here."""
    console.width = max(console.width, Console(width=_WIDEST).measure(what).maximum)
    console.print(what)
