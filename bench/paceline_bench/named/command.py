"""`paceline bench named` reduces a model's gradients by name through Horovod's API, in Paceline and in Horovod."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.checks import finite
from paceline.formats.terminal import show
from paceline_bench import report, systems
from paceline_bench.coordination.command import MODELS, gradients
from paceline_bench.ending import FAILED, ending
from paceline_bench.interleave import Effort, Work
from paceline_bench.option import JSON, environment, one_of, time_limit
from paceline_bench.place import LOCAL_RANKS
from paceline_bench.row import records, write_json
from paceline_bench.run import BenchRequest, run

_BURST_SECONDS = 0.5
"""Seconds of a burst: several steps in a row, as in a training."""


def command(
    ranks: LOCAL_RANKS = 2,
    model: Annotated[
        str, typer.Option(help=f"Whose gradients, of {', '.join(MODELS)}.", callback=one_of(MODELS))
    ] = MODELS[0],
    peers: Annotated[Path, environment("Horovod, torch and NumPy")] = Path(sys.prefix),
    rounds: Annotated[int, typer.Option(min=3, help="Most bursts per system.")] = Effort.rounds,
    seconds: Annotated[float, typer.Option(callback=finite, min=0, help="Time for all; at least 3 rounds run.")] = 30.0,
    timeout: Annotated[float, time_limit("a start or a burst")] = 120.0,
    json_file: JSON = None,
) -> None:
    """Sum a model's gradients by name, all submitted at once and then waited for, with the same calls of Horovod's API.

    Both systems' ranks stay alive and are measured in turn, as in `paceline bench all_reduce`; Horovod's ranks are
    stopped in between, because their background threads would continue to wake every millisecond. Sums are checked
    before and after. time(us) and cpu(us) are those of all gradients together.

    Exit code: 0, 1 when a result was wrong or a system failed, 2 when a requested system cannot be measured.
    """
    out, err = Console(), Console(stderr=True)
    with ending(err):
        chosen = systems.by_name(peers)
    found = gradients(model).gradients
    options = {"gradients": json.dumps(list(found))}
    chosen = [replace(system, options={**system.options, **options}) for system in chosen]
    work = Work("all_reduce", "float32", "sum", sum(elements for _, elements in found))
    request = BenchRequest(chosen, ranks, [work], effort=Effort(rounds, seconds, _BURST_SECONDS), timeout=timeout)
    with ending(err) as complain, err.status("") as status:
        outcome = run(request, os.environ, complain, status.update)
    show(out, report.table(outcome.rows, root=0))
    if json_file is not None:
        write_json(records(outcome.rows, model=model), json_file)
    if outcome.failed or any(row.wrong for row in outcome.rows):
        raise typer.Exit(FAILED)
