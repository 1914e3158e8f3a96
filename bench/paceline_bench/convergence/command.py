"""`paceline bench convergence` shows what encoding gradients and parameters does to small trainings on real data."""

from __future__ import annotations

import os
from dataclasses import asdict
from statistics import mean
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli.checks import installed
from paceline.formats.terminal import show
from paceline_bench.convergence.measure import CODECS, TRAININGS, Row, measure, system
from paceline_bench.ending import FAILED, ending
from paceline_bench.option import JSON, selection, time_limit
from paceline_bench.row import write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.table import Column, columns, empty

RANKS = 2
"""One on each of the two machines."""
NEEDS = {"torch": "torch", "sklearn": "scikit-learn"}
"""The modules that the trainings import, and the packages that hold them."""


def command(
    trainings: Annotated[str, selection(TRAININGS)] = "all",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Trainings with each codec.")] = 3,
    timeout: Annotated[float, time_limit("a training")] = 600.0,
    json_file: JSON = None,
) -> None:
    """Train three small networks on real data, with each codec from the same seeds, and compare where they end.

    "digits" is a convolutional network on handwritten digits, "text" a transformer that predicts the next character of
    Python's manual, "tabular" a perceptron on measured tumours. Two ranks train them and take this machine for two, so
    that what they exchange is encoded. Gradients are encoded with error feedback; "three_in_one" encodes the parameters
    of a sharded optimizer. "nudged" has no codec, and begins one float32 away from the seed's parameters: any rounding
    may take a training as far as that does. All ranks must end with the same bits. "loss" is the mean cross-entropy
    over the samples for training at the end, "to none" its distance from that of the same seed without a codec,
    "accuracy" the share of the test samples that are recognised; each is a mean over the seeds, with the lowest and
    the highest. --json has each training as soon as it is over.

    Exit code: 0, 1 when ranks ended differently or failed, 2 without torch or scikit-learn.
    """
    out, err = Console(), Console(stderr=True)
    installed(NEEDS)
    with (
        ending(err) as complain,
        err.status("starting") as status,
        started(BenchRequest([system()], RANKS, timeout=timeout), os.environ, complain) as sessions,
    ):
        if not sessions:
            raise typer.Exit(FAILED)
        found: list[Row] = []
        for row in measure(sessions[0], trainings.split(","), seeds, status.update):
            found.append(row)
            if json_file is not None:
                write_json([asdict(each) for each in found], json_file)
    show(out, table(found))


def table(rows: list[Row]) -> Table:
    """Return a table with a row for each training and codec: of each figure the mean over the seeds, and the range."""
    figures = columns(Row, "final_loss", "to_none", "accuracy")
    range_ = Column("from–to")
    result = empty([*columns(Row, "training", "codec"), *(shown for one in figures for shown in (one, range_))])
    for training in dict.fromkeys(row.training for row in rows):
        for codec in CODECS:
            cells = []
            for one in figures:
                values = [getattr(row, one.name) for row in rows if (row.training, row.codec) == (training, codec)]
                cells += [one.of(mean(values)), f"{one.of(min(values))}–{one.of(max(values))}"]
            result.add_row(training, codec, *cells)
    return result
