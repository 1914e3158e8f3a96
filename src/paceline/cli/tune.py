"""`paceline tune` finds with how many processes and threads a script is fastest on this machine."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typer.core import TyperCommand

from paceline.cli.checks import finite
from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError
from paceline.cpu.budget import available, physical_cores
from paceline.formats.terminal import show
from paceline.lab.lab import Lab
from paceline.launch.arguments import Arguments
from paceline.launch.interrupts import also_from_others
from paceline.launch.run import LaunchRequest, check
from paceline.settings.parsers import MOST_THREADS
from paceline.tune.cache import Cache, Known
from paceline.tune.halving import rungs
from paceline.tune.setting import BATCH, SHAPE, Samples, Setting, Shape
from paceline.tune.show import records, sentences, table
from paceline.tune.space import inside, space
from paceline.tune.trial import Effort
from paceline.tune.tune import Found, Request, tune

_MOST = 1 << 40
"""Samples of the largest batch that is asked for in earnest."""


class CommandParser(TyperCommand):
    """Leaves all after the program's name to the program."""

    allow_interspersed_args = False


def command(
    program: Annotated[list[str], typer.Argument(metavar="-- PROGRAM ARGUMENTS", show_default=False)],
    batch: Annotated[
        str,
        typer.Option(
            metavar="N[,N…]",
            help="Samples per process and step; several to choose from, if the command takes {batch}.",
            show_default=False,
        ),
    ] = "",
    interop: Annotated[
        str,
        typer.Option(
            "--interop-threads",
            metavar="N[,N…]",
            help="Inter-op threads per process to choose from. [default: the framework's]",
            show_default=False,
        ),
    ] = "",
    shape: Annotated[
        str,
        typer.Option(
            metavar="PxRxM[,…]",
            help="Partitions x replicas x microbatches of a hybrid model to choose from, if the command takes {shape}.",
            show_default=False,
        ),
    ] = "",
    effective: Annotated[
        str,
        typer.Option(
            "--effective-batch",
            metavar="LEAST:MOST",
            help="The effective batches that the training bears.",
            show_default=False,
        ),
    ] = "",
    strong: Annotated[
        bool, typer.Option("--strong", help="The script divides one batch among its processes (strong scaling).")
    ] = False,
    minutes: Annotated[
        float, typer.Option(callback=finite, min=0.01, max=10_000, help="The longest that the search may take.")
    ] = 20.0,
    seconds: Annotated[
        float, typer.Option(callback=finite, min=0.01, max=3600, help="How long steps are measured in each run.")
    ] = 2.0,
    timeout: Annotated[
        float, typer.Option(callback=finite, min=1, max=86400, help="Seconds in which a step has to come.")
    ] = 120.0,
    again: Annotated[bool, typer.Option("--again", help="Forget what earlier searches learned.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the rows to this file.", callback=writable)
    ] = None,
) -> int:
    """Find the processes, threads and cores with which PROGRAM trains fastest here, by short runs of it.

    paceline tune -- python train.py

    paceline tune --batch 16,32,64 -- python train.py --batch-size {batch}

    paceline tune --shape 1x2x1,2x1x8 -- python train.py --shape {shape}

    Settings that do well run again, in turn with each other. Ctrl-C keeps what was learned, and the next search goes on
    from there. `paceline run --tuned -- PROGRAM` uses what was found. In a `paceline lab` the job has the lab's ranks.

    Exit code: 0, 1 if no setting could be measured, 2 for wrong arguments, 130 after Ctrl-C.
    """
    words, environ, budget = tuple(program), dict(os.environ), available()
    batches, wanted = _batches(batch, words), _range(effective)
    interops = _numbers("--interop-threads", interop, MOST_THREADS)
    if wanted and batches == [None]:
        raise UsageError("--effective-batch needs --batch, the samples of each process and step")
    inside_lab = Lab.inside(environ)
    if inside_lab is not None and inside_lab[1] != 0:
        return 0  # the first machine of the lab measures
    lab = inside_lab[0] if inside_lab else None
    samples, shapes = Samples(strong), _shapes(shape, words)
    ranks = lab.topology.world if lab else None
    every = space(budget, physical_cores(budget.affinity), batches, interops, shapes, processes=ranks)
    if useless := next((one for one in shapes if one and all(one != setting.shape for setting in every)), None):
        needed = f"{useless.processes} process{'' if useless.processes == 1 else 'es'}"
        here = f"there are {ranks}" if ranks else f"which do not divide the {int(budget.cpus)} CPUs here"
        raise UsageError(f"--shape {useless} needs {needed}, {here}")
    settings = inside(every, samples, wanted)
    default = Setting(ranks or 1, 1 if ranks else max(1, int(budget.cpus)), batch=batches[0])
    try:
        check(LaunchRequest(Arguments((), (), words), "1", direct=True), environ, lab is None)
    except ValueError as error:
        raise UsageError(str(error)) from None
    cache = Cache(words, environ, budget)
    request = Request(words, settings, samples, Effort(seconds, timeout), 60 * minutes, default, lab)
    err = Console(stderr=True, highlight=False, markup=False)
    found = _searched(request, environ, Known() if again else cache.read(), cache, err)
    show(Console(highlight=False, markup=False), table(found, samples))
    if found.choice:
        early = [row.setting for row in found.rows if row.early]
        for line in sentences(found.choice, samples, words, wanted, lab is not None, early):
            print(line)
        if not found.known.complete:
            err.print(f"paceline: the search {'was interrupted' if found.interrupted else 'ran out of time'}; ", end="")
            err.print("the same command goes on with it")
        elif not found.measured:
            err.print("paceline: nothing had to be measured; --again measures anew")
    write(json_file, lambda: json.dumps(records(found), indent=1) + "\n")
    if found.interrupted:
        return 130
    if not found.choice:
        why = f"none of {len(settings)} settings could be measured"
        if found.unused:
            why = "the script does not use Paceline, so that its steps cannot be measured; start it as it trains"
        elif any(row.early for row in found.rows):
            why += ", as the script ends too early, or does not use Paceline; let it make more steps"
        print(f"paceline tune: {why}", file=sys.stderr)
    return 0 if found.choice else 1


def _searched(request: Request, environ: dict[str, str], known: Known, cache: Cache, err: Console) -> Found:
    """Search with a bar that shows the runs made so far."""
    total = sum(rung.settings * rung.repeats for rung in rungs(len(request.settings)))
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeElapsedColumn(),
    )
    lost = False

    def keep(known: Known) -> None:
        nonlocal lost
        if lost or not any(run.rates for run in known.runs):
            return
        try:
            cache.write(known)
        except OSError as error:
            lost = True
            err.print(f"paceline: cannot keep what is learned in {cache.path}: {error.strerror}")

    with also_from_others(), Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=total)

        def progress(setting: Setting | None) -> None:
            if setting is None:
                bar.advance(task)
            else:
                bar.update(task, description=str(setting))

        return tune(request, environ, known, keep, progress)


def _batches(text: str, words: tuple[str, ...]) -> list[int | None]:
    takes = any(BATCH in word for word in words)
    if takes and not text:
        raise UsageError(f"the command has {BATCH}; --batch 16,32,64 says what to put there")
    found = _numbers("--batch", text, _MOST)
    if len(found) > 1 and not takes:
        raise UsageError(f"--batch has several values; the command has to take them: … train.py --batch-size {BATCH}")
    return found


def _shapes(text: str, words: tuple[str, ...]) -> list[Shape | None]:
    if bool(text) != any(SHAPE in word for word in words):
        missing = f"the command has {SHAPE}; --shape 1x2x1,2x1x8 says what to put there"
        raise UsageError(f"--shape needs a command that takes it: … train.py {SHAPE}" if text else missing)
    found: list[Shape | None] = []
    for part in text.split(",") if text else ():
        if not re.fullmatch(r"[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){2}", part):
            raise UsageError(f"--shape {text}: {part!r} is not partitions x replicas x microbatches, as 2x1x8")
        one = Shape(*map(int, part.split("x")))
        if one not in found:
            found.append(one)
    return found or [None]


def _numbers(option: str, text: str, most: int) -> list[int | None]:
    """The numbers of a list such as 16,32,64, each once; [None] if it is empty."""
    if not text:
        return [None]
    found: list[int | None] = []
    for part in text.split(","):
        number = int(part) if part.isascii() and part.isdigit() and len(part) < 20 else 0
        if not 1 <= number <= most:
            raise UsageError(f"{option} {text}: {part!r} is not a number from 1 to {most}; write it as in 16,32")
        if number not in found:
            found.append(number)
    return found


def _range(text: str) -> range | None:
    if not text:
        return None
    least, _, most = text.partition(":")
    if not all(part.isascii() and part.isdigit() and len(part) < 20 for part in (least, most)):
        raise UsageError(f"--effective-batch {text}: write it as in 64:512")
    if not 1 <= int(least) <= int(most):
        raise UsageError(f"--effective-batch {text}: the first number has to be from 1 to the second")
    return range(int(least), int(most) + 1)
