"""`paceline bench waiting` measures what waiting ranks cost other processes, and what those cost the ranks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.status import Status

from paceline.cli.checks import ranks_here
from paceline.cpu.budget import available
from paceline.formats.terminal import show
from paceline_bench import collectives, option, report, sizes, systems
from paceline_bench.ending import FAILED, REFUSED, ending
from paceline_bench.interleave import Effort, Interleaved, Work
from paceline_bench.row import records, write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.session import SessionFailed
from paceline_bench.table import columns, table
from paceline_bench.waiting import measure
from paceline_bench.waiting.measure import Row

SHOWN = ("system", "path", "time_us", "cpu_us", "loss_percent", "loss_percent_q1", "wrong")
"""The columns of the table of what waiting costs."""
SIZES = (8, 1 << 20)
"""Bytes of the all_reduce among computing processes."""


def command(
    ranks: Annotated[
        int, typer.Option("-n", "--ranks", callback=ranks_here, min=2, help="Ranks that share the CPUs with others.")
    ] = 4,
    computing: Annotated[int, typer.Option(min=1, help="Processes that compute meanwhile.")] = 2,
    rounds: Annotated[int, typer.Option(min=3, help="Waits, and bursts per size, of every system.")] = 21,
    against: option.AGAINST = "",
    peers: option.PEERS = Path(sys.prefix),
    timeout: Annotated[float, option.time_limit("a start or an order")] = 120.0,
    json_file: option.JSON = None,
) -> None:
    """Measure what a waiting rank costs other processes, and what those cost the ranks.

    First, with 2 ranks, one waits 100 ms in an all_reduce of 8 B for the other, bound to a CPU on which another process
    adds small arrays. "loss" is the share of its throughput that this process loses, median over the rounds, compared
    with right before and after; cpu(us) is the CPU time of the waiting rank. Then all_reduce with RANKS ranks while
    processes compute on the same CPUs, measured as `paceline bench all_reduce` does.

    Exit code: 0, 1 when a result was wrong or a system failed, 2 when a requested system cannot be measured.
    """
    out, err = Console(), Console(stderr=True)
    crowded = ranks + computing > available().cpus
    chosen, missing = collectives.choose("all_reduce", "engine", against, peers, crowded=crowded)
    for sentence in missing:
        err.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)

    with ending(err) as complain, err.status("starting") as status:
        waits = _waits(chosen, rounds, timeout, complain, status)
        latencies, failed = _latencies(chosen, (ranks, computing, rounds), timeout, complain, status)
    show(
        out,
        table(columns(Row, *SHOWN), waits),
    )
    out.print(f"\nall_reduce on {ranks} ranks while {computing} processes compute:")
    show(out, report.table(latencies, root=0))
    if json_file is not None:
        found = records(waits, measurement="waiting", computing=1)
        write_json(found + records(latencies, measurement="latency", computing=computing), json_file)
    if failed or sum(row.wrong for row in waits) + sum(row.wrong for row in latencies):
        raise typer.Exit(FAILED)
    if missing and against != "all":
        raise typer.Exit(REFUSED)


def _waits(
    chosen: Sequence[systems.System], rounds: int, timeout: float, complain: Callable[[str], None], status: Status
) -> list[Row]:
    # A system's ranks wait in the same way with every setting of its algorithm.
    waiting = [system for system in chosen if not system.variant]
    first, *others = sorted(os.sched_getaffinity(0))
    cpus = (first, others[0] if others else first)
    with (
        started(BenchRequest([measure.busy()], 1, timeout=timeout), os.environ, complain) as busy,
        started(BenchRequest(waiting, 2, timeout=timeout), os.environ, complain) as sessions,
    ):
        if not busy:
            raise SessionFailed("the computing process did not start")
        return [measure.figures(one) for one in measure.cost(sessions, busy[0], cpus, rounds, status.update)]


def _latencies(
    chosen: Sequence[systems.System],
    numbers: tuple[int, int, int],
    timeout: float,
    complain: Callable[[str], None],
    status: Status,
) -> tuple[list[report.Row], bool]:
    ranks, computing, rounds = numbers
    rows: list[report.Row] = []
    with started(BenchRequest(chosen, ranks, timeout=timeout), os.environ, complain) as sessions:
        interleaved = Interleaved(sessions, Effort(rounds=rounds), complain)
        interleaved.failed = len(sessions) < len(chosen)
        with started(BenchRequest([measure.busy()], computing, timeout=timeout), os.environ, complain) as busy:
            for session in busy:
                session.send(do="work", seconds=float("inf"))
            for size in SIZES:
                status.update(f"all_reduce {sizes.show(size)} among computing processes")
                work = Work("all_reduce", "float32", "sum", sizes.elements(size, "float32", "all_reduce", ranks))
                measured = interleaved.measure(work, lambda done: None)
                rows += report.best([report.figures(one, work) for one in measured])
            for session in busy:
                session.stop(gently=False)
    return rows, interleaved.failed
