"""The options that several benchmarks share, and checks of their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from paceline.bench import systems
from paceline.cli.output_file import writable
from paceline.formats.sizes import parse_bytes

AGAINST = Annotated[
    str, typer.Option(help=f"Peers in the same run: {', '.join(systems.PEERS)}; or all that are installed.")
]
PEERS = Annotated[
    Path, typer.Option(help="The environment that holds mpi4py and the MPI peers.", show_default="this one")
]
JSON = Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.", callback=writable)]


def one_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    """Return a callback that raises typer.BadParameter for all words but these."""

    def check(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(allowed)}")
        return text

    return check


def some_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    """Return a callback that returns the given words of a comma-separated list, or all for "all".

    The callback raises typer.BadParameter for all words but these.
    """
    known = one_of(allowed)

    def chosen(text: str) -> str:
        return ",".join(allowed if text == "all" else [known(word.strip()) for word in text.split(",")])

    return chosen


def size(text: str) -> str:
    """Return the text. Raises typer.BadParameter if `parse_bytes` cannot read it."""
    try:
        parse_bytes(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def buffers(cached: str, large: str, widest: int) -> list[tuple[int, str]]:
    """Return the bytes of a buffer in the cache and of one in memory, each with its name.

    Raises typer.BadParameter where they are no multiple of the bytes of the widest element.
    """
    for text in (cached, large):
        if parse_bytes(text) % widest:
            raise typer.BadParameter(f"{text!r} is not a multiple of {widest} bytes, the widest element")
    return [(parse_bytes(cached), "cache"), (parse_bytes(large), "memory")]
