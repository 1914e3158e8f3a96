"""Decides where a benchmark's ranks run: on this machine or on those of a lab."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import typer

from paceline.cli.checks import ranks_here
from paceline.lab.lab import Lab, switched

RANKS = Annotated[
    int | None,
    typer.Option(
        "-n", "--ranks", min=1, callback=ranks_here, help="Ranks of every system.", show_default="2, or the lab's"
    ),
]
LOCAL_RANKS = Annotated[int, typer.Option("-n", "--ranks", min=1, callback=ranks_here, help="Ranks of each system.")]
"""The option of a benchmark that runs on this machine alone."""
_DEFAULT = 2
"""The number of ranks on this machine if the user gives none."""


def place(ranks: int | None, machines: int, environ: Mapping[str, str]) -> tuple[Lab | None, int] | None:
    """Return the machines to measure on (None for this one) and the number of ranks.

    Returns None if this is a machine of a lab and another one measures.

    ranks: the number that the user gave, if any. machines: the number of machines to make; 1 makes none.

    Raises typer.BadParameter for numbers that do not fit together.
    """
    inside = Lab.inside(environ)
    if inside is not None:
        lab, number = inside
        if machines > 1 or ranks not in (None, lab.topology.world):
            raise typer.BadParameter(f"the lab has {lab.topology.world} ranks; leave -n and --machines out")
        return (lab, lab.topology.world) if number == 0 else None
    count = ranks or _DEFAULT
    if machines == 1:
        return None, count
    if count < machines:
        raise typer.BadParameter(f"{count} ranks are too few for {machines} machines", param_hint="--machines")
    blocks = Counter(rank * machines // count for rank in range(count))
    return Lab(switched(list(blocks.values()))), count
