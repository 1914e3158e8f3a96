"""`paceline bench jax` sums JAX arrays over the ranks, by Paceline's functions and by JAX's own collectives."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.bench import option, report, sizes, systems
from paceline.bench.ending import FAILED, REFUSED, ending
from paceline.bench.interleave import Effort, Work
from paceline.bench.option import JSON
from paceline.bench.row import records, write_json
from paceline.bench.run import BenchRequest, run
from paceline.cli.option_checks import finite, ranks_here
from paceline.formats.sizes import parse_bytes
from paceline.formats.terminal import show


def command(
    ranks: Annotated[int, typer.Option("-n", "--ranks", callback=ranks_here, min=1, help="Ranks of each system.")] = 2,
    begin: Annotated[str, typer.Option("-b", "--begin", help="Smallest size.", callback=option.size)] = "1K",
    end: Annotated[
        str, typer.Option("-e", "--end", help="Largest size; always measured.", callback=option.size)
    ] = "64M",
    factor: Annotated[float, typer.Option("-f", "--factor", callback=finite, help="From one size to the next.")] = 1024,
    peers: Annotated[
        Path, typer.Option(help="The environment that holds JAX, and sees Paceline.", show_default="this one")
    ] = Path(sys.prefix),
    rounds: Annotated[int, typer.Option(min=3, help="Most bursts per system and size.")] = Effort.rounds,
    seconds: Annotated[
        float, typer.Option(callback=finite, min=0, help="Time per size, all systems together; at least 3 rounds run.")
    ] = Effort.seconds,
    timeout: Annotated[
        float, typer.Option(callback=finite, min=1, help="Seconds that a start or a burst may take.")
    ] = 120.0,
    json_file: JSON = None,
) -> None:
    """Sum a float32 array over all ranks: by the raw call, by paceline.jax.all_reduce, and by JAX's psum.

    All systems' ranks stay alive and are measured in turn, as in `paceline bench all_reduce`, and results are checked
    before and after. psum runs over Paceline and over JAX's Gloo. A call of the paths "jax" and "psum" starts a
    compiled program and waits for it, so that it costs what JAX needs to start a program, too. The sum gets the memory
    of the array, as a gradient's in a training step.

    Exit code: 0, 1 when a result was wrong or a system failed, 2 when JAX is not installed.
    """
    out, err = Console(), Console(stderr=True)
    try:
        swept = sizes.sweep(parse_bytes(begin), parse_bytes(end), factor)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        chosen = systems.in_jax(peers)
    except systems.Missing as reason:
        err.print(str(reason), style="yellow", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(REFUSED) from None
    counts = [sizes.elements(size, "float32", "all_reduce", ranks) for size in swept]
    works = [Work("all_reduce", "float32", "sum", count) for count in dict.fromkeys(counts)]
    request = BenchRequest(chosen, ranks, works, effort=Effort(rounds, seconds), timeout=timeout)
    with ending(err) as complain, err.status("") as status:
        outcome = run(request, os.environ, complain, status.update)
    show(out, report.table(outcome.rows, root=0))
    if json_file is not None:
        write_json(records(outcome.rows), json_file)
    if outcome.failed or any(row.wrong for row in outcome.rows):
        raise typer.Exit(FAILED)
