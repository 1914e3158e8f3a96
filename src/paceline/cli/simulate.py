"""`paceline simulate` says what a training job would do on other ranks, networks and policies, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from paceline.cli.output_file import UsageError, writable, write
from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.terminal import show
from paceline.plan.algorithms import ALGORITHMS
from paceline.settings.parsers import POLICIES
from paceline.simulate import Answer, Compute, Job, answer, models, study
from paceline.simulate.job import PARTS, in_order
from paceline.simulate.network import machine_of, transfer, uniform
from paceline.topology import Topology, TopologyError, read
from paceline.topology.units import parse_speed, parse_time

_MOST_RANKS = 100_000
"""Ranks that are simulated at most; 24 576 take about 3 GiB."""
_LATE = 0.02
"""The mean delay of a rank, as a fraction of the step's computation, where nobody says another."""


def command(
    name: Annotated[str, typer.Option("--model", help=f"One of {', '.join(models.names())}.")] = "ResNet-50",
    step: Annotated[str, typer.Option(help="Computation of a step, forward and backward: 300 ms.")] = "300 ms",
    late: Annotated[
        str, typer.Option(help="How late a rank is in the mean: 5 ms.", show_default="2 % of the step")
    ] = "",
    topology_file: Annotated[
        Path | None,
        typer.Option("--topology", metavar="FILE", help="The network: see docs/reference/topology.md."),
    ] = None,
    ranks: Annotated[str, typer.Option(help="Without a topology: one number of ranks, or 2:64 for 2, 4, … 64.")] = "",
    per_machine: Annotated[int, typer.Option(help="Ranks on each machine.", min=1)] = 8,
    uplink: Annotated[str, typer.Option(help="Speed of each machine's link.")] = "10 Gbit/s",
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(POLICIES)}, or all.")] = "board",
    algorithm: Annotated[
        str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}, or all. [default: what Paceline would choose]")
    ] = "",
    counted: Annotated[int, typer.Option("--steps", help="Steps of each run that count.", min=1)] = 10,
    runs: Annotated[int, typer.Option(help="Runs, each with random numbers of its own.", min=1)] = 3,
    study_name: Annotated[
        str, typer.Option("--study", help=f"Instead of all this, a paper's figures: {', '.join(study.names())}.")
    ] = "",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the rows to this file.", callback=writable)
    ] = None,
) -> int:
    """Predict a training job's steps on other ranks, networks and policies, or reproduce a paper's figures."""
    console = Console(highlight=False, markup=False)
    try:
        if study_name:
            found = _study(study_name, console)
        else:
            answers = _answers(
                name,
                parse_time(step),
                parse_time(late) if late else None,
                POLICIES if policy == "all" else (policy,),
                tuple(ALGORITHMS) if algorithm == "all" else (algorithm or None,),
                counted,
                runs,
                console,
                _topologies(topology_file, ranks, per_machine, parse_speed(uplink)),
            )
            _show(answers, console)
            found = [each.row for each in answers]
        write(json_file, lambda: json.dumps(found, indent=1) + "\n")
    except (TopologyError, ValueError) as error:
        raise UsageError(str(error)) from None
    return 0


def _topologies(file: Path | None, ranks: str, per_machine: int, uplink: float) -> list[Topology]:
    if file is not None:
        if ranks:
            raise ValueError(f"{file} says how many ranks there are; leave out --ranks")
        return [read(file)]
    if not ranks:
        raise ValueError("say which network: --topology FILE, or --ranks 64 with --per-machine and --uplink")
    return [uniform(count, per_machine, uplink) for count in _counts(ranks, per_machine)]


def _counts(text: str, per_machine: int) -> list[int]:
    first, colon, last = text.partition(":")
    try:
        low, high = int(first), int(last if colon else first)
    except ValueError:
        raise ValueError(f"--ranks is {text!r:.40}; write a number such as 64, or a range such as 16:1024") from None
    if not per_machine < low <= high <= _MOST_RANKS:
        raise ValueError(
            f"--ranks is {text!r:.40}, but the network between machines is what is simulated: with {per_machine} ranks "
            f"on a machine write a number, or a range that rises, from {per_machine + 1} to {_MOST_RANKS}"
        )
    counts = [low]
    while 2 * counts[-1] <= high:
        counts.append(2 * counts[-1])
    return counts


def _answers(
    name: str,
    step: float,
    late: float | None,
    policies: Sequence[str],
    algorithms: Sequence[str | None],
    counted: int,
    runs: int,
    console: Console,
    topologies: Sequence[Topology],
) -> list[Answer]:
    for policy in policies:
        if policy not in POLICIES:
            raise ValueError(f"--policy is {policy!r:.40}; choose one of {', '.join(POLICIES)}, or all")
    network = models.model(name)
    delay = _LATE * step if late is None else late
    console.print(
        f"{network.name}, {len(network.gradients)} gradients of {show_bytes(network.nbytes)}; {show_seconds(step)} of "
        f"computation in a step; ranks are {show_seconds(delay)} late in the mean"
    )
    found = []
    with _progress() as progress:
        task = progress.add_task("")
        for topology, algorithm in product(topologies, algorithms):
            made = transfer(topology, algorithm)
            for each in policies:
                progress.update(task, description=f"{each} on {topology.world} ranks")
                job = Job(
                    machine_of=machine_of(topology),
                    gradients=network.gradients,
                    policy=each,
                    compute=Compute(seconds=step, delay=delay),
                    transfer=made,
                )
                found.append(answer(in_order(job), counted, runs))
    return found


def _show(answers: Sequence[Answer], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in (
        "ranks",
        "policy",
        "algorithm",
        "step",
        "90 %",
        "efficiency",
        *(part.replace("_", " ") for part in PARTS),
    ):
        table.add_column(column, justify="left" if column in ("policy", "algorithm") else "right")
    for each in answers:
        table.add_row(
            str(each.ranks),
            each.policy,
            each.algorithm,
            show_seconds(each.step.seconds),
            f"{show_seconds(each.low)} to {show_seconds(each.high)}",
            f"{each.efficiency:.1%}",
            *(f"{share:.1%}" for share in each.shares.values()),
        )
    show(console, table)


def _study(name: str, console: Console) -> list[dict[str, object]]:
    document = study.load(name)
    with _progress() as progress:
        task = progress.add_task("")
        runs = study.run(document, lambda what: progress.update(task, description=what))
    found = study.rows(document, runs)
    console.print(f"{document['paper'].strip()}\n{document['about'].strip()}", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("figure", "quantity", "paper", "simulated", "residual", ""):
        table.add_column(column, justify="left" if column in ("quantity", "") else "right")
    for row in found:
        paper = "" if row.paper is None else f"{row.paper:g} {row.unit}"
        residual = "" if row.paper is None else f"{row.simulated - row.paper:+.1f}"
        told = "fitted" if row.fitted else "predicted"
        table.add_row(row.figure, row.quantity, paper, f"{row.simulated:.1f} {row.unit}", residual, told)
    show(console, table)
    return [asdict(row) for row in found]


def _progress() -> Progress:
    return Progress(SpinnerColumn(), TextColumn("{task.description}"), transient=True, console=Console(stderr=True))
