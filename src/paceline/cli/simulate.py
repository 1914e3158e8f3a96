"""`paceline simulate` says what a training job would do on other ranks, networks and policies, in virtual time."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from paceline.cli.output_file import writable, write
from paceline.cli.usage import LINK, LINKS, UsageError
from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.svg_style import shortened
from paceline.formats.terminal import show
from paceline.settings.names import NONE
from paceline.settings.parsers import POLICIES
from paceline.simulate import Answer, models, study
from paceline.simulate.calibrate import Measured
from paceline.simulate.draw import draw
from paceline.simulate.question import EACH, Question, measured, scenarios
from paceline.simulate.scenario import AUTO, Scenario, advice
from paceline.simulate.show import binds, knee
from paceline.simulate.tables import advice_table, tables
from paceline.simulate.timeline import trace
from paceline.simulate.workload import DIVIDED, SHARED
from paceline.topology import TopologyError
from paceline.topology.units import parse_time

MOST = 1_000_000
"""The most steps, runs, partitions and microbatches that are asked for in earnest."""
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
            help=f"{LINKS[0].upper()}{LINKS[1:]}; uplink=1Gbit/s:8Gbit/s for 1, 2, 4 and 8.",
            rich_help_panel=_WHERE,
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
            seconds=parse_time(step) if step else None,
            late=parse_time(late) if late else None,
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
        )
        if study_name:
            if question != Question() or advise or svg or trace_file or goal_file:
                raise ValueError(f"--study {study_name} says what is simulated: with it goes --json alone")
            found = _study(study_name, console)
        else:
            run = measured(question)
            asked = list(scenarios(question, run))
            _introduce(asked, run, console)
            if advise:
                found = _advise(asked, counted, runs, console)
            else:
                answers = _answers(asked, counted, runs, console)
                found = [{**each.row, "assumed": one.assumed} for each, one in zip(answers, asked, strict=True)]
                title = f"{report or name or 'ResNet-50'} in virtual time"
                write(svg, lambda: str(draw(answers, shortened(title, 80)).as_svg()))
            write(trace_file, lambda: trace(asked[-1].moments()))
            write(goal_file, lambda: "".join(f"{line}\n" for line in asked[-1].goal()))
        write(json_file, lambda: json.dumps(found, indent=1) + "\n")
    except (TopologyError, ValueError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}") from None
    return 0


def _introduce(asked: list[Scenario], run: Measured | None, console: Console) -> None:
    workload = asked[0].workload
    computation = fmean(workload.compute.samples or (workload.compute.seconds,))
    text = f"{len(workload.gradients)} gradients of {show_bytes(workload.nbytes)}; "
    text += f"{show_seconds(computation)} of computation in a step"
    if workload.compute.delay:
        text += f"; ranks are {show_seconds(workload.compute.delay)} late in the mean"
    console.print(text, soft_wrap=True)
    if run is not None:
        took = f"took {show_seconds(fmean(run.steps))} in the mean"
        if carries := run.workload.carries:
            took += f"; exchanges took {fmean(carries):.2f} times what the cost model says"
        console.print(f"the run: {run.topology.world} ranks, {len(run.steps)} steps, each {took}", soft_wrap=True)
    for line in dict.fromkeys(line for each in asked for line in each.assumed):
        console.print(f"assumed: {line}", soft_wrap=True)


def _answers(asked: list[Scenario], counted: int, runs: int, console: Console) -> list[Answer]:
    answers: list[Answer] = []
    with _progress(len(asked)) as progress:
        task = progress.add_task("", total=len(asked))
        for one in asked:
            progress.update(task, description=f"{one.workload.policy} on {one.topology.world} ranks")
            answers.append(one.answer(counted, runs))
            progress.advance(task)
    show(console, tables(answers))
    console.print(binds(answers[-1], asked[-1]), soft_wrap=True)
    curves: dict[tuple[str, str], list[Answer]] = {}
    for each in answers:
        curves.setdefault((each.policy, each.algorithm), []).append(each)
    for curve in curves.values():
        if len({each.ranks for each in curve}) == len(curve) and (sentence := knee(curve)):
            console.print(sentence, soft_wrap=True)
    return answers


def _advise(asked: list[Scenario], counted: int, runs: int, console: Console) -> list[dict[str, object]]:
    if len(asked) > 1:
        raise ValueError(f"--advise is about one job, but this is {len(asked)} of them; leave out ranges and {EACH}")
    now = asked[0].answer(counted, runs)
    show(console, tables([now]))
    console.print(binds(now, asked[0]), soft_wrap=True)
    with _progress() as progress:
        task = progress.add_task("")
        found = []
        for each in advice(asked[0], counted, runs):
            progress.update(task, description=each.change)
            found.append(each)
    found.sort(key=lambda each: -each.gain)
    show(console, advice_table(found))
    assumed = asked[0].assumed
    return [{"change": each.change, "gain": each.gain, **each.answer.row, "assumed": assumed} for each in found]


def _study(name: str, console: Console) -> list[dict[str, object]]:
    document = study.load(name)
    with _progress() as progress:
        task = progress.add_task("")
        found = study.run(document, lambda what: progress.update(task, description=what))
    console.print(f"{document['paper'].strip()}\n{document['about'].strip()}", soft_wrap=True)
    rows = Table(box=None, pad_edge=False)
    for column in ("figure", "quantity", "paper", "simulated", "residual", ""):
        rows.add_column(column, justify="left" if column in ("quantity", "") else "right")
    for row in found:
        paper = "" if row.paper is None else f"{row.paper:g} {row.unit}"
        residual = "" if row.paper is None else f"{row.simulated - row.paper:+.1f}"
        told = "fitted" if row.fitted else "predicted"
        rows.add_row(row.figure, row.quantity, paper, f"{row.simulated:.1f} {row.unit}", residual, told)
    show(console, rows)
    for row in found:
        if row.why:
            console.print(f"{row.quantity}: {row.why}", soft_wrap=True)
    return [asdict(row) for row in found]


def _progress(total: int | None = None) -> Progress:
    bar = (BarColumn(), MofNCompleteColumn()) if total else (SpinnerColumn(),)
    return Progress(*bar, TextColumn("{task.description}"), transient=True, console=Console(stderr=True))
