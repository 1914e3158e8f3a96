"""The tables that `paceline simulate` prints, and the rows that it writes."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.formats.terminal import show
from paceline.simulate import Answer, study
from paceline.simulate.calibrate import Measured
from paceline.simulate.question import EACH
from paceline.simulate.scenario import Scenario, advice
from paceline.simulate.show import binds, knee
from paceline.simulate.tables import advice_table, tables


def introduce(asked: list[Scenario], run: Measured | None, console: Console) -> None:
    """Print what is known of the job, and what is assumed."""
    workload = asked[0].workload
    text = f"{len(workload.gradients)} gradients of {show_bytes(workload.nbytes)}; "
    text += f"{show_seconds(workload.compute.mean)} of computation in a step"
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


def answers(asked: list[Scenario], counted: int, runs: int, console: Console) -> list[Answer]:
    """Simulate what was asked, print the answers, and return them."""
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


def advise(asked: list[Scenario], counted: int, runs: int, console: Console) -> list[dict[str, object]]:
    """Print what changes would give, and return a row for each. Raises ValueError for several questions."""
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


def study_rows(name: str, console: Console) -> list[dict[str, object]]:
    """Print a paper's figures beside the simulated ones, and return a row for each. Raises ValueError."""
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
