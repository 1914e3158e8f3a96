"""`paceline simulate` says what a training job would do on other ranks, networks and policies, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli import simulate_printed as printed
from paceline.cli.output_file import writable, write
from paceline.cli.usage import LINK, LINKS, UsageError
from paceline.formats.svg_style import shortened
from paceline.settings.names import NONE
from paceline.settings.parsers import POLICIES
from paceline.simulate import models, study
from paceline.simulate.draw import draw
from paceline.simulate.question import EACH, Question, measured, scenarios
from paceline.simulate.scenario import AUTO
from paceline.simulate.timeline import trace
from paceline.simulate.workload import DIVIDED, SHARED
from paceline.topology import TopologyError
from paceline.topology.units import parse_time

MOST = 1_000_000
"""The most steps, runs, partitions and microbatches that are asked for in earnest."""
_LONGEST_STEP = 86_400.0
"""Seconds that a step may compute at most."""
_WHAT, _WHERE, _HOW, _OUTPUT = "What is simulated", "Where", "How", "Output"


def command(
    report: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="The report of a run (PACELINE_REPORT).", rich_help_panel=_WHAT),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--model", help=f"Without a report: one of {', '.join(models.names())}.", rich_help_panel=_WHAT),
    ] = "",
    gradients: Annotated[
        str,
        typer.Option(
            metavar="BYTES/TENSORS", help="Or the gradients alone: 340M/200.", show_default=False, rich_help_panel=_WHAT
        ),
    ] = "",
    dtype: Annotated[
        str,
        typer.Option(help="The dtype of a model's gradients.", show_default="float32", rich_help_panel=_WHAT),
    ] = "",
    step: Annotated[
        str,
        typer.Option(help="Computation of a step, forward and backward.", show_default="300 ms", rich_help_panel=_WHAT),
    ] = "",
    late: Annotated[
        str,
        typer.Option(help="How late a rank is in the mean.", show_default="2 % of the step", rich_help_panel=_WHAT),
    ] = "",
    scale: Annotated[
        float, typer.Option("--scale-compute", help="So many times the computation.", rich_help_panel=_WHAT)
    ] = 1.0,
    strong: Annotated[
        bool, typer.Option("--strong", help="More ranks share one batch (strong scaling).", rich_help_panel=_WHAT)
    ] = False,
    partitions: Annotated[
        int,
        typer.Option(
            help="Ranks that share a model as a pipeline, on one machine.", min=1, max=MOST, rich_help_panel=_HOW
        ),
    ] = 1,
    microbatches: Annotated[
        int | None,
        typer.Option(
            help="Into which a rank or a pipeline divides its batch; gradients are whole in the last.",
            min=1,
            max=MOST,
            show_default="1, or four a partition",
            rich_help_panel=_HOW,
        ),
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The network: see docs/reference/topology.md.", rich_help_panel=_WHERE),
    ] = None,
    ranks: Annotated[str, typer.Option(help="A number of ranks, or 2:64 for 2, 4, … 64.", rich_help_panel=_WHERE)] = "",
    per_machine: Annotated[
        int | None,
        typer.Option(help="Ranks on each machine.", min=1, show_default="8, or the report's", rich_help_panel=_WHERE),
    ] = None,
    links: Annotated[
        list[str] | None,
        typer.Option(
            "--link",
            metavar=LINK,
            help=f"{LINKS[0].upper()}{LINKS[1:]}; uplink=1Gbit/s:8Gbit/s for 1, 2, 4 and 8; host=pcie3 where "
            "gradients of devices are copied to their machines' memory and back.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    efficiency: Annotated[
        str,
        typer.Option(
            "--link-efficiency",
            metavar="FRACTION|FILE",
            help="What transfers reach of links between machines; a file has it for sizes of all-reduces (4M 0.6).",
            show_default="1",
            rich_help_panel=_WHERE,
        ),
    ] = "",
    share: Annotated[
        float | None,
        typer.Option(
            "--link-share", help="What other jobs leave of these links.", show_default="1", rich_help_panel=_WHERE
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(POLICIES)}, or {EACH}.",
            show_default="the report's, or board",
            rich_help_panel=_HOW,
        ),
    ] = "",
    algorithm: Annotated[str, typer.Option(help=f"That of all-reduces, or {EACH}.", rich_help_panel=_HOW)] = AUTO,
    codec: Annotated[str, typer.Option(help="Encodes data between machines.", rich_help_panel=_HOW)] = NONE,
    cores: Annotated[
        str,
        typer.Option(
            help=f"{SHARED}; {DIVIDED}: the engine has a core of its own; "
            "or 4/6: a rank has 4 CPUs, and its program 6 threads that want them.",
            rich_help_panel=_HOW,
        ),
    ] = SHARED,
    counted: Annotated[
        int, typer.Option("--steps", help="Steps of each run.", min=1, max=MOST, rich_help_panel=_HOW)
    ] = 10,
    runs: Annotated[
        int, typer.Option(help="Runs, each with random numbers of its own.", min=1, max=MOST, rich_help_panel=_HOW)
    ] = 5,
    advise: Annotated[
        bool, typer.Option("--advise", help="Try what could be changed, and rank it by its gain.")
    ] = False,
    study_name: Annotated[
        str, typer.Option("--study", help=f"Instead of all this, a paper's figures: {', '.join(study.names())}.")
    ] = "",
    svg: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Draw it as SVG.", callback=writable, rich_help_panel=_OUTPUT),
    ] = None,
    trace_file: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Write one step of the last job, for Perfetto.",
            callback=writable,
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    goal_file: Annotated[
        Path | None,
        typer.Option(
            "--goal",
            metavar="FILE",
            help="Write the same step as a GOAL schedule, for LogGOPSim and ATLAHS.",
            callback=writable,
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the rows to this file.", callback=writable, rich_help_panel=_OUTPUT
        ),
    ] = None,
) -> int:
    """Predict a training job's steps on other ranks, networks and policies, or reproduce a paper's figures."""
    console = Console(highlight=False, markup=False)
    try:
        question = Question(
            report=report,
            model=name,
            seconds=parse_time(step, _LONGEST_STEP) if step else None,
            late=parse_time(late, _LONGEST_STEP) if late else None,
            topology=topology,
            ranks=ranks,
            per_machine=per_machine,
            links=tuple(links or ()),
            policy=policy,
            algorithm=algorithm,
            codec=codec,
            cores=cores,
            scale=scale,
            strong=strong,
            partitions=partitions,
            microbatches=microbatches,
            gradients=gradients,
            dtype=dtype,
            efficiency=efficiency,
            share=share,
        )
        if study_name:
            if question != Question() or advise or svg or trace_file or goal_file:
                raise ValueError(f"--study {study_name} says what is simulated: with it goes --json alone")
            found = printed.study_rows(study_name, console)
        else:
            run = measured(question)
            asked = list(scenarios(question, run))
            printed.introduce(asked, run, console)
            if advise:
                found = printed.advise(asked, counted, runs, console)
            else:
                answers = printed.answers(asked, counted, runs, console)
                found = [{**each.row, "assumed": one.assumed} for each, one in zip(answers, asked, strict=True)]
                title = f"{report or name or gradients or 'ResNet-50'} in virtual time"
                write(svg, lambda: str(draw(answers, shortened(title, 80)).as_svg()))
            write(trace_file, lambda: trace(asked[-1].moments()))
            write(goal_file, lambda: "".join(f"{line}\n" for line in asked[-1].goal()))
        write(json_file, lambda: json.dumps(found, indent=1) + "\n")
    except (TopologyError, ValueError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}") from None
    return 0
