"""What the benchmarks' command lines share, and checks of what stands there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from paceline.bench import sizes, systems

AGAINST = Annotated[
    str, typer.Option(help=f"Peers in the same run: {', '.join(systems.PEERS)}, or all that are installed.")
]
PEERS = Annotated[
    Path, typer.Option(help="The environment that holds mpi4py and the MPI peers.", show_default="this one")
]
JSON = Annotated[Path | None, typer.Option("--json", help="Write the rows to this file.")]


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
