"""`paceline bench coordination` measures what it costs to agree on the order of named gradients."""

from __future__ import annotations

import os
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from paceline.cli.checks import finite, installed
from paceline.formats.sizes import parse_bytes
from paceline.formats.terminal import show
from paceline_bench.coordination.measure import METHODS, Model, Row, measure, rows, systems
from paceline_bench.ending import FAILED, ending
from paceline_bench.option import FUSION, JSON, one_of, time_limit
from paceline_bench.place import RANKS, place
from paceline_bench.ranks.load import ComputeLoad
from paceline_bench.row import write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.table import columns, table

MODELS = ("ResNet-50", "GoogLeNet", "AlexNet")
SHOWN = (
    *("model", "policy", "wait", "cores", "step_ms", "step_ms_q1", "exposed_ms", "overhead_percent", "to_cycle"),
    *("background_cpu_ms", "cpu_ms", "negotiation_us", "idle_negotiation_us", "oversleep_us", "wrong"),
)
"""The columns of the table."""


def command(
    ranks: RANKS = None,
    models: Annotated[str, typer.Option("--models", help=f"Whose gradients, of {', '.join(MODELS)}.")] = ",".join(
        MODELS
    ),
    compute: Annotated[
        float,
        typer.Option(callback=finite, min=1, max=1e6, help="Milliseconds of computation of a step, on a free core."),
    ] = 150.0,
    inputs: Annotated[
        float, typer.Option(callback=finite, min=0, max=1e3, help="Computation of an input batch, as a share of that.")
    ] = 0.5,
    fusion: FUSION = "64M",
    rounds: Annotated[int, typer.Option(min=3, help="Turns of every policy.")] = 7,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps per turn, after two that aren't.")] = 5,
    timeout: Annotated[float, time_limit("a start or a turn")] = 300.0,
    json_file: JSON = None,
) -> None:
    """Train with the gradients of real models, submitted by name in another order on every rank, under every policy.

    Each policy has its own ranks, which stay alive; they train a few steps in turn while all others are idle. A rank
    computes for a fixed amount of work; a worker process that makes its next batch loads the same cores. Sums are
    checked in every step. "alone" exchanges nothing; "known" needs no agreement: all gradients go, in full buffers,
    when the last one is ready. "overhead" is how much longer a step takes than with "known"; below 0, overlap won.
    "negotiation" is the time from when a gradient is ready on all ranks until all have issued it, "idle" the same for a
    tensor that all wait for while nothing is computed.

    Exit code: 0, 1 when a sum was wrong or a rank failed, 2 when it can't be measured here.
    """
    out, err = Console(), Console(stderr=True)
    names = [one_of(MODELS)(name) for name in models.split(",")]
    installed({"torch": "torch"})
    placed = place(ranks, 1, os.environ)
    if placed is None:
        return
    lab, count = placed
    unit, fusion_bytes = ComputeLoad().seconds_per_unit(), parse_bytes(fusion)
    units, input_units = round(compute / 1e3 / unit), round(compute * inputs / 1e3 / unit)
    found: list[Row] = []
    with ending(err) as complain, err.status("starting") as status:
        for model in map(gradients, names):
            request = BenchRequest(
                systems(model, count, units, input_units, fusion_bytes), count, lab=lab, timeout=timeout
            )
            progress = partial(_progress, status, model.name)
            with started(request, os.environ, complain) as sessions:
                if len(sessions) < len(METHODS):
                    raise typer.Exit(FAILED)
                found += rows(measure(sessions, rounds, steps, progress), model.name)
    show(out, table(columns(Row, *SHOWN), found))
    if json_file is not None:
        write_json([asdict(row) for row in found], json_file)
    if any(row.wrong for row in found):
        raise typer.Exit(FAILED)


def _progress(status: Status, model: str, text: str) -> None:
    status.update(f"{model}: {text}")


def gradients(name: str) -> Model:
    """Return the gradients of one of `MODELS`, in the order of the forward pass."""
    import torch

    from paceline_bench.ranks.models import NETWORKS

    with torch.device("meta"):
        network = NETWORKS[name]()
    return Model(name, [(key, parameter.numel()) for key, parameter in network.named_parameters()])
