"""`paceline characterize` measures approaches to distributed training side by side."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from paceline.cli.checks import ranks_here
from paceline.cli.output_file import writable, write
from paceline.formats.terminal import show
from paceline_bench.characterize.answers import answers
from paceline_bench.characterize.approaches import APPROACHES, CHOICES, Places
from paceline_bench.characterize.measure import Effort
from paceline_bench.characterize.page import characterisation_page
from paceline_bench.characterize.results import Results
from paceline_bench.characterize.run import Study, run
from paceline_bench.characterize.show import ordered, table
from paceline_bench.ending import FAILED, REFUSED, ending
from paceline_bench.option import JSON, environment, selection, some_of, time_limit
from paceline_bench.place import place
from paceline_bench.row import write_json
from paceline_bench.systems import Missing, System

MODELS = ("ResNet-50", "MobileNet")
ALL = "all"
_MOST_BATCH = 4096
"""Images per rank and step."""


def _approaches(text: str) -> str:
    return text if text == ALL else some_of(CHOICES)(text)


def _batches(text: str) -> str:
    for number in numbers(text, "--batches"):
        if number > _MOST_BATCH:
            raise typer.BadParameter(f"{number} images per rank are too many; at most {_MOST_BATCH} are possible")
    return text


def _ranks(text: str | None) -> str | None:
    for number in numbers(text, "--ranks") if text else []:
        if number < 2:
            raise typer.BadParameter("1 rank has no other rank to exchange with")
        ranks_here(number)
    return text


def numbers(text: str, what: str) -> list[int]:
    """Return the whole numbers from 1 of a comma-separated list. Raises typer.BadParameter."""
    found = []
    for word in text.split(","):
        if not (word.strip().isascii() and word.strip().isdigit()) or len(word) > 9 or int(word) < 1:
            raise typer.BadParameter(f"{what}: {word!r:.80} is no whole number from 1")
        found.append(int(word))
    return list(dict.fromkeys(found))


def command(
    models: Annotated[str, selection(MODELS)] = "all",
    batches: Annotated[str, typer.Option(help="Images per rank and step: 2,8 for both.", callback=_batches)] = "2,8",
    ranks: Annotated[
        str | None,
        typer.Option("-n", "--ranks", help="2,4 for both.", callback=_ranks, show_default="2, or the lab's"),
    ] = None,
    approaches: Annotated[
        str, typer.Option(help=f"Of {', '.join(CHOICES)}; or all that are installed.", callback=_approaches)
    ] = ALL,
    image_size: Annotated[int, typer.Option(min=32, max=1024, help="Width and height of the images in pixels.")] = 64,
    at_once: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Approaches that have ranks at the same time; fewer need less memory.",
            show_default="all",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=3, help="Turns of every approach.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps per turn, after one that isn't.")] = 2,
    peers: Annotated[Path, environment("the MPIs and Horovod")] = Path(sys.prefix),
    tensorflow: Annotated[Path, environment("TensorFlow")] = Path(sys.prefix),
    timeout: Annotated[float, time_limit("a start or a turn")] = 300.0,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep each finished row here, and do not measure it again.", callback=writable
        ),
    ] = None,
    page_file: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write one page of HTML here.", callback=writable)
    ] = None,
    json_file: JSON = None,
) -> None:
    """Train by several approaches side by side, and show which one is fast, where the time goes, and why.

    Each approach has its own ranks, which stay alive; they make a few steps in turn while all others are idle. With
    --at-once 2 two approaches at a time do so, beside the one that exchanges nothing. Models, batches and ranks are
    combined with each other. The approaches are those of Awan et al. (arXiv:1810.11112) and some
    of today; every rank of each computes with one thread. A first step is compared with a reference before the timing.

    With --results, Ctrl-C loses nothing that is finished: the same command continues. A file may hold several networks
    of `paceline lab FILE -- paceline characterize …`; the page compares them.

    Exit code: 0, 1 when a step was wrong or an approach failed, 2 when one that was asked for can't be measured.
    """
    out, err = Console(), Console(stderr=True)
    kept = Results(results)
    counts: list[int | None] = [*numbers(ranks, "--ranks")] if ranks else [None]
    placed = [found for count in counts if (found := place(count, 1, os.environ)) is not None]
    if not placed:
        return
    lab = placed[0][0]
    studies = [
        Study(
            lab,
            count,
            models.split(","),
            numbers(batches, "--batches"),
            image_size,
            Effort(rounds, steps),
            at_once,
            timeout,
        )
        for _, count in placed
    ]
    places = Places(peers, tensorflow)
    failed = False
    with ending(err) as complain, _bar(err) as bar:
        chosen = [_systems(approaches, places, study.ranks, err) for study in studies]
        task = bar.add_task("starting", total=None)
        failed = run(
            list(zip(studies, chosen, strict=True)), places, kept, os.environ, complain, partial(_advance, bar, task)
        )
    rows = ordered(kept.rows)
    if not rows:
        raise typer.Exit(FAILED)
    show(out, table(rows))
    for question, sentences in answers(rows):
        out.print(f"\n{question}", style="bold", highlight=False, markup=False)
        for sentence in sentences:
            out.print(sentence, highlight=False, markup=False, soft_wrap=True)
    write(page_file, lambda: characterisation_page(rows))
    if json_file is not None:
        write_json([asdict(row) for row in rows], json_file)
    if failed or any(row.wrong for row in rows):
        raise typer.Exit(FAILED)


def _systems(approaches: str, places: Places, ranks: int, err: Console) -> list[System]:
    """Return the systems of the approaches that were asked for; of all approaches, those that are installed."""
    found = []
    for name in CHOICES if approaches == ALL else approaches.split(","):
        try:
            found.append(APPROACHES[name].system(places, ranks))
        except Missing as reason:
            err.print(f"{name}: {reason}", style="yellow", markup=False, highlight=False, soft_wrap=True)
            if approaches != ALL:
                raise typer.Exit(REFUSED) from None
    return found


def _bar(err: Console) -> Progress:
    parts = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*parts, transient=True, console=err)


def _advance(bar: Progress, task: TaskID, text: str, done: int, total: int) -> None:
    bar.update(task, description=text, completed=done, total=total)
