"""`paceline bench hybrid` measures models in partitions: their steps, their memory, and how well both are predicted."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli.checks import installed
from paceline.formats.terminal import show
from paceline_bench.ending import FAILED, ending
from paceline_bench.hybrid.measure import ACTIVATIONS, MODELS, Row, measure, row, shapes, systems
from paceline_bench.option import JSON, one_of, selection, size, time_limit
from paceline_bench.place import RANKS, place
from paceline_bench.row import write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.table import Column, columns
from paceline_bench.table import table as made

_TOLERANCE = 1e-5
"""The largest error of a gradient that float32 explains. Weights are equal, so that activations have the serial model's
bits: only sums over replicas, and over partitions that share a weight, come in another order, some 1e-7."""


def command(
    ranks: RANKS = None,
    models: Annotated[str, selection(MODELS)] = ",".join(MODELS[:4]),
    wanted: Annotated[
        str, typer.Option("--shapes", help="auto, all, or partitions x replicas x microbatches, as auto,2x1x8.")
    ] = "",
    schedule: Annotated[str, typer.Option(help="The pipeline schedule.")] = "1F1B",
    batch: Annotated[int, typer.Option(min=1, help="Samples of a step, of all replicas together.")] = 64,
    memory: Annotated[
        str,
        typer.Option(
            help="What each rank may use, as 3G; leaves out one rank alone and DDP, which can't obey.",
            show_default="as much as there is",
        ),
    ] = "",
    activations: Annotated[
        str,
        typer.Option(
            help=f"What becomes of activations that do not fit: {', '.join(ACTIVATIONS)}.", callback=one_of(ACTIVATIONS)
        ),
    ] = "recompute",
    rounds: Annotated[int, typer.Option(min=3, help="Turns of every way to train.")] = 7,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps per turn, after one that isn't.")] = 2,
    timeout: Annotated[float, time_limit("a start or a turn")] = 600.0,
    json_file: JSON = None,
) -> None:
    """Train models in partitions and replicas, beside DDP and one rank alone; each rank has one thread.

    Each way has its own ranks, which stay alive; they train a few steps in turn while all others are idle. Gradients
    are checked first, against the serial model that computes the same microbatches. Without --shapes there are the one
    that `partitions="auto"` chooses, and a pipeline of all ranks with four microbatches for each. "speed" is the
    throughput over that of one rank alone; "step" includes the loss and the optimizer (Adam), "predicted" the latter
    of both.

    On the machines of a lab (`paceline lab FILE -- paceline bench hybrid`) the first machine's command measures, with
    ranks on all machines as the file says, and the commands of the others end at once.

    Exit code: 0, 1 when gradients were wrong or a rank failed, 2 without torch.
    """
    out, err = Console(), Console(stderr=True)
    installed({"torch": "torch"})
    placed = place(ranks, 1, os.environ)
    if placed is None:
        return
    lab, count = placed
    if memory:
        size(memory)
    try:
        chosen = shapes(wanted or f"auto,{count}x1x{min(4 * count, batch)}", count, batch)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--shapes") from None
    found: list[Row] = []
    with ending(err) as complain, err.status("starting") as status:
        for model in models.split(","):
            request = BenchRequest(
                systems(model, chosen, schedule, batch, memory, activations), count, lab=lab, timeout=timeout
            )
            with started(request, os.environ, complain) as sessions:
                if len(sessions) < len(request.systems):
                    raise typer.Exit(FAILED)
                found += [row(one) for one in measure(sessions, rounds, steps, status.update)]
            if json_file is not None:
                write_json([asdict(one) for one in found], json_file)
    show(out, table(found))
    if any(not one.max_gradient_error <= _TOLERANCE for one in found):
        raise typer.Exit(FAILED)


def table(rows: list[Row]) -> Table:
    """Return a table with a row for each model and way to train."""
    alone = {one.model: one.step_ms for one in rows if one.system == "serial"}
    shape = Column("shape", name="shape", left=True)
    speed = Column("speed", lambda one: f"{alone.get(one.model, math.nan) / one.step_ms:.2f}×")
    times = ("step_ms", "step_ms_q1", speed, "predicted_ms")
    memory = ("peak_bytes", "predicted_bytes")
    return made(columns(Row, "model", "system", shape, *times, *memory, "max_gradient_error"), rows)
