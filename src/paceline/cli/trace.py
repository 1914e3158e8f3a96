"""`paceline trace` shows the last operations of all ranks."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli.usage import UsageError
from paceline.observe.trace import chrome, dump, live
from paceline.observe.trace import flight as recorder


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with the ranks' dumps (PACELINE_TRACE). Without it, the ranks that run here are asked.",
            show_default=False,
        ),
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option(help="Process of any rank, to choose among several running jobs.", show_default=False),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Chrome trace to write.")] = Path("trace.json"),
    per_rank: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write a Chrome trace for each rank instead, as HTA wants.", show_default=False
        ),
    ] = None,
    flight: Annotated[
        str | None,
        typer.Option(metavar="PREFIX", help="Write PREFIX0, PREFIX1, … for torchfrtrace instead."),
    ] = None,
) -> int:
    """Show the last operations of all ranks, of a running job or from its dumps.

    Writes one trace that Perfetto opens, one for each rank, or flight-recorder files. A running job is not disturbed,
    also when it hangs.
    """
    if folder is not None and pid is not None:
        raise UsageError("give a folder or --pid, not both")
    if flight is not None and per_rank is not None:
        raise UsageError("give --flight or --per-rank, not both")
    try:
        dumps, silent = (dump.read(folder), []) if folder is not None else live.job(pid)
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    for silence in silent:
        print(f"paceline trace: {silence}; left out", file=sys.stderr)
    if folder is None:
        for one in dumps:
            print(live.summary(one))
    size = dumps[0].size
    ranks = f"{len(dumps)} of {size} ranks" if len(dumps) < size else f"{len(dumps)} ranks"
    try:
        if flight is not None:
            files = recorder.write(dumps, flight)
            folder_of, prefix = os.path.split(flight)
            read = shlex.join(["torchfrtrace", "-p", prefix, folder_of or "."])
            done = f"{len(files)} flight-recorder files, {files[0]} … {files[-1]}; show them by {read}"
        elif per_rank is not None:
            traces = chrome.write_each(dumps, per_rank)
            done = f"{len(traces)} traces in {per_rank}, {traces[0].name} … {traces[-1].name}"
        else:
            operations = chrome.write(dumps, output)
            done = f"{output}: {operations} operations of {ranks}; open it at https://ui.perfetto.dev"
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    print(done)
    return 0
