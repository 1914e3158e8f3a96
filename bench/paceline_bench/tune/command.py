"""`paceline bench tune` compares the search of `paceline tune` with an exhaustive one, on three trainings."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli.checks import finite, installed
from paceline.cpu.budget import available
from paceline.formats.terminal import show
from paceline.launch.interrupts import also_from_others
from paceline.tune.choice import Row
from paceline.tune.trial import Effort
from paceline_bench.ending import FAILED
from paceline_bench.option import JSON, selection
from paceline_bench.row import write_json
from paceline_bench.table import Column, columns, table
from paceline_bench.tune.measure import NAMES, Comparison, Failed, compare

SHOWN = ("script", "chosen", "best", "tune_seconds", "exhaustive_seconds", "share", "loss", "gain", "several")
"""The columns of the table."""


def command(
    scripts: Annotated[str, selection(NAMES)] = "all",
    rounds: Annotated[int, typer.Option(min=2, max=100, help="Runs of each setting in the exhaustive search.")] = 4,
    seconds: Annotated[
        float, typer.Option(callback=finite, min=0.1, max=600, help="How long steps are measured in each run.")
    ] = 2.0,
    timeout: Annotated[
        float, typer.Option(callback=finite, min=1, help="Seconds in which a run has to be over.")
    ] = 30.0,
    json_file: JSON = None,
) -> None:
    """Train a CNN, a transformer, and a CNN that waits for its input, each with 16 samples per process and step.

    For each, `paceline tune` searches first; then every setting runs as often as --rounds says, also those with two
    threads for each CPU, unless it fails. "time" is that of the first search over that of the second, and in brackets
    over that of those settings that the first one chooses from. "loss" is by how much the setting that was chosen is
    slower than the best, as the exhaustive search measured both. "to default" is its throughput over that of one
    process with a thread for each CPU, with a 95 % interval. "several" is the best throughput of several processes over
    the best of one.

    Exit code: 0, 1 when a search measured nothing, 2 without torch.
    """
    out, err = Console(), Console(stderr=True, highlight=False)
    installed({"torch": "torch"})
    found: list[Comparison] = []
    tried: dict[str, list[Row]] = {}
    with also_from_others(), err.status("starting") as status:
        for name in scripts.split(","):
            try:
                one, tried[name] = compare(
                    name, dict(os.environ), available(), Effort(seconds, timeout), rounds, status.update
                )
            except Failed as reason:
                err.print(f"paceline bench tune: {name}: {reason}", markup=False)
                continue
            found.append(one)
            if json_file is not None:
                write_json([asdict(one) for one in found], json_file)
    for name, some in tried.items():
        show(out, settings_table(name, some))
    show(out, table(columns(Comparison, *SHOWN), found))
    if len(found) < len(scripts.split(",")):
        raise typer.Exit(FAILED)


def settings_table(name: str, tried: list[Row]) -> Table:
    """Return a table of what the exhaustive search measured for one training."""
    setting = Column(name, lambda row: str(row.setting), left=True)
    speed = Column("samples/s", lambda row: f"{row.throughput.value:.0f}" if row.throughput else "–")
    interval = Column(
        "interval", lambda row: f"{row.throughput.low:.0f}–{row.throughput.high:.0f}" if row.throughput else row.reason
    )
    return table([setting, speed, interval, Column("runs", name="runs")], tried)
