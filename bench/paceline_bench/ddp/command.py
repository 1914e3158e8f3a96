"""`paceline bench ddp` measures what the exchange of gradients costs a training, end to end."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.checks import installed
from paceline.formats.terminal import show
from paceline_bench.ddp.measure import METHODS, POSSIBLE, Row, measure, rows, system
from paceline_bench.ending import FAILED, ending
from paceline_bench.option import JSON, some_of, time_limit
from paceline_bench.place import RANKS, place
from paceline_bench.row import records, write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.table import columns, table

OTHERS = tuple(method for method in METHODS if method not in POSSIBLE)
"""The methods that can be chosen."""
SHOWN = (
    *("system", "path", "images_per_second", "images_per_second_q1", "time_us", "exposed_us", "cpu_us"),
    *("to_silent", "to_alone", "state_bytes", "wrong"),
)
"""The columns of the table."""


def command(
    ranks: RANKS = None,
    methods: Annotated[
        str,
        typer.Option(help=f"Beside {' and '.join(POSSIBLE)}: {', '.join(OTHERS)}; or all.", callback=some_of(OTHERS)),
    ] = "all",
    batch: Annotated[int, typer.Option(min=1, help="Images per rank and step.")] = 16,
    rounds: Annotated[int, typer.Option(min=3, help="Turns of every training method.")] = 11,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps per turn, after one that isn't.")] = 3,
    timeout: Annotated[float, time_limit("a start or a turn")] = 300.0,
    json_file: JSON = None,
) -> None:
    """Train ResNet-18 on random 64×64 images: alone, with DDP, in the arena, with sharded optimizers, and with FSDP2.

    Each method has its own ranks, one thread each, which stay alive; they train a few steps in turn while all others
    are idle. "alone" uses neither DDP nor any exchange; "silent" is DDP with a backend that does nothing; "arena_hook"
    is DDP with Paceline's communication hook; "compress_int8" is DDP with gradients that are encoded as int8 between
    machines, with error feedback; "gradient_buckets" is Paceline without DDP; "zero_…" is DDP with torch's
    ZeroRedundancyOptimizer, over Gloo and Paceline; "sharded_optimizer" is Paceline's, without DDP; "fsdp_…" is FSDP2,
    with every residual block sharded, over Gloo and Paceline. The gradients are checked first. "exposed" is how much
    longer a step takes than that of "silent": communication that nothing hides. "to silent" and "to alone" are medians
    and quartiles over the rounds of the ratio of the rates in a round. "state" is the memory of the optimizer's state
    on the rank that has the most.

    On the machines of a lab (`paceline lab FILE -- paceline bench ddp`) the first machine's command measures, with
    ranks on all machines as the file says, and the commands of the others end at once.

    Exit code: 0, 1 when gradients were wrong or a rank failed, 2 without torch.
    """
    out, err = Console(), Console(stderr=True)
    installed({"torch": "torch"})
    placed = place(ranks, 1, os.environ)
    if placed is None:
        return
    lab, count = placed
    if count < 2:
        raise typer.BadParameter("1 rank has no other rank to exchange with", param_hint="-n")
    chosen = [*POSSIBLE, *methods.split(",")]
    request = BenchRequest([system(method, batch) for method in chosen], count, lab=lab, timeout=timeout)
    with (
        ending(err) as complain,
        err.status("starting") as status,
        started(request, os.environ, complain) as sessions,
    ):
        if len(sessions) < len(chosen):
            raise typer.Exit(FAILED)
        found = rows(measure(sessions, rounds, steps, status.update), batch, steps)
    show(out, table(columns(Row, *SHOWN), found))
    if json_file is not None:
        write_json(records(found), json_file)
    if any(row.wrong for row in found):
        raise typer.Exit(FAILED)
