"""`paceline bench simulate` predicts jobs from the run of another one, runs them, and says how wrong it was."""

from __future__ import annotations

import os
from dataclasses import asdict
from statistics import median
from typing import Annotated

import typer
from rich.console import Console

from paceline.formats.terminal import show
from paceline_bench.ending import FAILED, ending
from paceline_bench.option import JSON, time_limit
from paceline_bench.row import write_json
from paceline_bench.table import columns, table


def command(
    cases: Annotated[str, typer.Option(help="Only cases whose names have one of these words, with commas.")] = "",
    steps: Annotated[int, typer.Option(min=4, help="Counted steps of each run; twice as many calibrate.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of every case.")] = 2,
    timeout: Annotated[float, time_limit("a start or a run")] = 300.0,
    json_file: JSON = None,
) -> None:
    """Run a training on a lab's 2+2 ranks at 500 Mbit/s, predict others from its report, and run them. Needs root.

    Ranks compute by sleeping for 150 ms, plus an exponential delay of 6 ms in the mean, and submit 12 MiB of gradients
    by name, so that other work on the CPUs does not decide. "predicted" and "measured" are medians of steps; 90 % of
    the simulated steps lie between "low" and "high". "error" is that of the prediction.

    Exit code: 0, 1 when a sum was wrong or a rank failed, 2 where there can be no lab.
    """
    from paceline_bench.simulate.measure import CASES, USUAL, Row, measure  # what predicts jobs takes long to load

    out, err = Console(), Console(stderr=True)
    words = [word.strip() for word in cases.split(",") if word.strip()]
    chosen = tuple(case for case in CASES if not words or any(word in case.name for word in words))
    if not chosen:
        raise typer.BadParameter(f"no case has one of these words; there are: {'; '.join(case.name for case in CASES)}")
    with ending(err) as complain, err.status("starting") as status:
        found = list(measure(chosen, steps, rounds, os.environ, timeout, complain, status.update))
    show(out, table(columns(Row), found))
    errors = [abs(row.error) for row in found]
    inside = sum(row.inside for row in found)
    out.print(
        f"calibrated on {USUAL.name}; error: median {median(errors):.1%}, worst {max(errors):.1%}; "
        f"{inside} of {len(found)} in their intervals",
        highlight=False,
        soft_wrap=True,
    )
    if json_file is not None:
        write_json([asdict(row) for row in found], json_file)
    if any(row.wrong for row in found):
        raise typer.Exit(FAILED)
