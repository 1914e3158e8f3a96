"""`paceline check`, run as a rank of a job that any launcher started, or with ranks of its own on this machine."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import paceline
from paceline.adapt.measure.links import measure
from paceline.adapt.measure.unlimited import unlimited
from paceline.cli.checks import ranks_here
from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError
from paceline.errors import CommunicationError
from paceline.formats.terminal import show
from paceline.launch.local import LocalJob
from paceline.process.current import runtime
from paceline.topology import dump
from paceline.topology.discover import Placement, RankFacts, by_machine
from paceline.topology.draw_text import tree
from paceline.topology.infer import infer
from paceline.topology.judge import findings

MEETING_SECONDS = 120.0
"""Seconds for all ranks to connect, and for each message, unless PACELINE_TIMEOUT is set."""


def command(
    ranks: Annotated[
        int,
        typer.Option(
            "-n", min=0, callback=ranks_here, help="Ranks to start on this machine; none: this is one of a job."
        ),
    ] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write what was found as a topology file.")] = None,
) -> int:
    """Measure the links between the ranks of a job, say what they are, and name what is slow.

    Start it on every machine as you start the job: torchrun … -m paceline check, mpirun … paceline check,
    srun … paceline check, paceline run -n 4 -m paceline check; or here alone with paceline check -n 4.
    Takes less than a minute, in which nothing else should use the network.
    """
    if ranks:
        return _local(ranks, writable(out))
    settings = runtime().settings
    if settings.size == 1:
        raise UsageError("a single rank has no links to measure; start it as a job (see --help), or with -n 4")
    try:
        return _as_rank(settings.timeout or MEETING_SECONDS, out if settings.rank else writable(out))
    except CommunicationError as error:
        print(f"paceline check: {error}", file=sys.stderr)
        return 1


def _local(ranks: int, out: Path | None) -> int:
    words = ["check", *(["--out", str(out)] if out is not None else [])]
    with LocalJob(ranks, [sys.executable, "-m", "paceline", *words], os.environ, threads=1) as job:
        return job.wait()


def _as_rank(timeout: float, out: Path | None) -> int:
    with paceline.init(timeout=timeout) as group:
        members = runtime().membership(group.channel).members
        facts = [RankFacts(member.machine, member.host) for member in members]
        start = time.monotonic()
        with unlimited(group.native):
            measured = measure(group, by_machine(facts))
        seconds = time.monotonic() - start
    if group.rank:
        return 0
    found = infer(facts, measured)
    _show(found, findings(found, measured), seconds)
    if out is not None:
        write(out, lambda: dump(found.topology))
        print(f"written to {out}")
    return 0


def _show(found: Placement, sentences: list[str], seconds: float) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True)
    show(console, tree(found.topology))
    if found.ranks != tuple(range(len(found.ranks))):
        console.print(f"  these are the job's ranks {', '.join(map(str, found.ranks))}, in this order")
    for sentence in sentences:
        console.print(sentence, style="yellow")
    if not sentences:
        console.print("nothing is slow compared with the rest")
    console.print(f"measured within {seconds:.1f} s", style="dim")
