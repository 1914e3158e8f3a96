"""`paceline bench jax` sums JAX arrays over the ranks, by Paceline's functions and by JAX's own collectives."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.formats.sizes import parse_bytes
from paceline.formats.terminal import show
from paceline_bench import option, report, sizes, systems
from paceline_bench.ending import FAILED, ending
from paceline_bench.interleave import Effort, Work
from paceline_bench.place import LOCAL_RANKS
from paceline_bench.row import records, write_json
from paceline_bench.run import BenchRequest, run


def command(
    ranks: LOCAL_RANKS = 2,
    begin: option.BEGIN = "1K",
    end: option.END = "64M",
    factor: option.FACTOR = 1024,
    peers: Annotated[Path, option.environment("JAX, and sees Paceline")] = Path(sys.prefix),
    rounds: Annotated[int, typer.Option(min=3, help="Most bursts per system and size.")] = Effort.rounds,
    seconds: option.SECONDS = Effort.seconds,
    timeout: Annotated[float, option.time_limit("a start or a burst")] = 120.0,
    json_file: option.JSON = None,
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
    with ending(err):
        chosen = systems.in_jax(peers)
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
