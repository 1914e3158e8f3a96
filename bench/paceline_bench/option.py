"""The options that several benchmarks share, and checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli.checks import finite
from paceline.cli.output_file import writable
from paceline.formats.sizes import parse_bytes
from paceline_bench import systems


def one_of(allowed: Sequence[str]) -> Callable[[str], str]:
    """Return a callback that raises typer.BadParameter for all words but these."""

    def check(text: str) -> str:
        if text not in allowed:
            raise typer.BadParameter(f"{text!r} is none of {', '.join(allowed)}")
        return text

    return check


def some_of(allowed: Sequence[str]) -> Callable[[str], str]:
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


def selection(allowed: Sequence[str]) -> Any:
    """Return an option that takes some of these words, with commas, or "all"."""
    return typer.Option(help=f"Some of {', '.join(allowed)}; or all.", callback=some_of(allowed))


def environment(content: str) -> Any:
    """Return an option that takes the folder of a virtual environment. content: what that holds."""
    return typer.Option(help=f"The environment that holds {content}.", show_default="this one")


def time_limit(task: str) -> Any:
    """Return an option that takes the seconds within which a task is over. task: "a start" or the like."""
    return typer.Option(callback=finite, min=1, help=f"Seconds that {task} may take.")


AGAINST = Annotated[
    str, typer.Option(help=f"Peers in the same run: {', '.join(systems.PEERS)}; or all that are installed.")
]
PEERS = Annotated[Path, environment("mpi4py and the MPI peers")]
JSON = Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.", callback=writable)]
BEGIN = Annotated[str, typer.Option("-b", "--begin", help="Smallest size.", callback=size)]
END = Annotated[str, typer.Option("-e", "--end", help="Largest size; always measured.", callback=size)]
FACTOR = Annotated[float, typer.Option("-f", "--factor", callback=finite, help="From one size to the next.")]
FUSION = Annotated[str, typer.Option("--fusion-bytes", help="The most in one buffer.", callback=size)]
SECONDS = Annotated[
    float, typer.Option(callback=finite, min=0, help="Time per size, all systems together; at least 3 rounds run.")
]


def buffers(cached: str, large: str, widest: int) -> list[tuple[int, str]]:
    """Return the bytes of a buffer in the cache and of one in memory, each with its name.

    Raises typer.BadParameter where they are no multiple of the bytes of the widest element.
    """
    for text in (cached, large):
        if parse_bytes(text) % widest:
            raise typer.BadParameter(f"{text!r} is not a multiple of {widest} bytes, the widest element")
    return [(parse_bytes(cached), "cache"), (parse_bytes(large), "memory")]
