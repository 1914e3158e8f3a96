"""`paceline lab` makes a cluster on this machine and runs a command on each of its machines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline import topology
from paceline.cli.checks import finite
from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError
from paceline.lab import report
from paceline.lab.lab import INSIDE, Lab, Traffic
from paceline.lab.namespaces import Unavailable
from paceline.lab.run import run
from paceline.lab.shaping import Discipline, Queue
from paceline.topology.units import parse_time

_LONGEST_QUEUE = 1.0
"""Seconds; a longer one would hold what TCP takes for lost."""


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The cluster: a topology file.", show_default=False)],
    words: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND", help="What to run on every machine.", show_default=False),
    ],
    timeout: Annotated[
        float, typer.Option(callback=finite, min=1, help="End all machines after this number of seconds.")
    ] = 3600.0,
    queue: Annotated[
        str, typer.Option(metavar="TIME", help="How long a link takes to carry what its queue holds.")
    ] = "10 ms",
    discipline: Annotated[
        Discipline, typer.Option(help="Whether short packets go first, or a policer drops instead of queueing.")
    ] = Discipline.SHORT_FIRST,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the links' counters to this file.", show_default=False, callback=writable),
    ] = None,
) -> int:
    """Make the cluster of a topology file on this machine and run COMMAND on each of its machines. Needs root.

    Machines are network namespaces, switches are bridges, and every uplink is held to its rate in both directions.
    COMMAND finds in its environment what torchrun and `paceline run` need to start the machine's ranks:

    paceline lab two-and-three.yaml -- paceline run train.py

    paceline lab two-and-three.yaml -- torchrun train.py

    paceline lab two-and-three.yaml -- paceline bench all_reduce --algorithms ring,paceline --against gloo

    Afterwards the bytes that crossed each uplink are shown, and everything is removed. Exit code: that of the first
    machine that failed, 124 after --timeout, 2 where the lab can't be made.
    """
    traffic: list[Traffic] = []

    def conclude(lab: Lab) -> None:
        traffic.extend(lab.traffic())
        Console(stderr=True).print(report.table(lab, traffic))

    try:
        if INSIDE in os.environ:
            raise Unavailable("this is a machine of a lab already; run `paceline lab` outside of it.")
        with Lab(topology.read(file), file, queue=Queue(_queue_seconds(queue), discipline)) as lab:
            code = run(lab, words, os.environ, timeout, lambda: conclude(lab))
    except (Unavailable, ValueError) as reason:
        raise UsageError(str(reason)) from None
    write(json_file, lambda: json.dumps(report.records(lab, traffic), indent=1) + "\n")
    return code


def _queue_seconds(text: str) -> float:
    seconds = parse_time(text)
    if not 0 < seconds <= _LONGEST_QUEUE:
        raise ValueError(f"--queue {text}: a link's queue holds more than 0 s and at most {_LONGEST_QUEUE:g} s")
    return seconds
