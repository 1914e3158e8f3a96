"""Checks of what stands on the command line."""

from __future__ import annotations

from collections.abc import Callable

import typer

from paceline.bench import sizes


def one_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    """A check that refuses all words but these."""

    def check(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(allowed)}")
        return text

    return check


def size(text: str) -> str:
    """Refuses what `sizes.parse` can't read."""
    try:
        sizes.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text
