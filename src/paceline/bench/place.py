"""Where a benchmark's ranks are: on this machine, or on those of a lab."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import typer

from paceline.cli.option_checks import ranks_here
from paceline.lab.lab import Lab, switched

RANKS = Annotated[
    int | None,
    typer.Option(
        "-n", "--ranks", min=1, callback=ranks_here, help="Ranks of every system.", show_default="2, or the lab's"
    ),
]
_DEFAULT = 2


def place(ranks: int | None, machines: int, environ: Mapping[str, str]) -> tuple[Lab | None, int] | None:
    """The machines to measure on, None for this one, and how many ranks there are.

    None where another machine of the lab measures. ranks: as the user says, None if they don't; machines: that are to
    be made, 1 for none. Raises typer.BadParameter for what does not fit together.
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
