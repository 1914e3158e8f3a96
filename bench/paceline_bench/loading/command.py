"""`paceline bench loading` reads images for the ranks of a machine: by a shared pipeline, and by one for each rank."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.checks import installed, ranks_here
from paceline.formats.terminal import show
from paceline_bench.ending import FAILED, ending
from paceline_bench.loading.measure import METHODS, Row, measure, rows, system
from paceline_bench.option import JSON, time_limit
from paceline_bench.row import write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.table import columns, table

_BLOCK = 8
"""Pixels: the images' edges are multiples of it."""


def command(
    ranks: Annotated[int, typer.Option("-n", "--ranks", min=1, callback=ranks_here, help="Ranks.")] = 4,
    batch: Annotated[int, typer.Option(min=1, max=1 << 20, help="Images per batch and rank.")] = 16,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Input workers per rank.")] = 1,
    pixels: Annotated[int, typer.Option(min=8, max=4096, help="Width and height, a multiple of 8.")] = 64,
    batches: Annotated[int, typer.Option(min=1, max=1 << 20, help="Batches of an epoch.")] = 128,
    rounds: Annotated[int, typer.Option(min=3, help="Epochs of each, in turn, after one that isn't timed.")] = 5,
    timeout: Annotated[float, time_limit("an epoch")] = 300.0,
    json_file: JSON = None,
) -> None:
    """Read images that are decoded as JPEG files are, for ranks that do nothing else.

    "shared" is `paceline.torch.data.Loader`, which reads once for all ranks; "own" is a DataLoader for each rank, with
    as many input workers in all. Both decode each image once. "cpu(us)" is the CPU time of ranks and input workers per
    image; it decides how many images a machine can read that has nothing else to do. "to own" is the rate over that of
    "own" in the same round, and "cpu to own" the images per CPU second over its.

    Exit code: 0, 1 when a rank failed or images were missing, 2 without torch.
    """
    if pixels % _BLOCK:
        raise typer.BadParameter(f"{pixels} is not a multiple of {_BLOCK}", param_hint="--pixels")
    out, err = Console(), Console(stderr=True)
    installed({"torch": "torch"})
    images = ranks * batch * batches
    systems = [system(method, ranks * batch, ranks * workers, pixels, images) for method in METHODS]
    with (
        ending(err) as complain,
        err.status("starting") as status,
        started(BenchRequest(systems, ranks, timeout=timeout), os.environ, complain) as sessions,
    ):
        if len(sessions) < len(METHODS):
            raise typer.Exit(FAILED)
        found = rows(measure(sessions, images, rounds, status.update), ranks, ranks * workers, pixels)
    show(out, table(columns(Row), found))
    if json_file is not None:
        write_json([asdict(row) for row in found], json_file)
