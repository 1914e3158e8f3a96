"""`paceline bench data` measures what it costs a training to get its batches to the ranks."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.bench.data.measure import NETWORKS, Row, measure, system
from paceline.bench.ending import FAILED, REFUSED, ending
from paceline.bench.option import JSON
from paceline.bench.report import columns, wrong
from paceline.bench.row import write_json
from paceline.bench.run import BenchRequest, started
from paceline.cli.option_checks import finite, ranks_here
from paceline.formats.terminal import show


def command(
    devices: Annotated[
        int, typer.Option("-n", "--devices", min=2, callback=ranks_here, help="Ranks, which stand for devices.")
    ] = 4,
    batch: Annotated[int, typer.Option(min=1, help="Samples per rank and step.")] = 8,
    models: Annotated[str, typer.Option(help=f"Networks: {', '.join(NETWORKS)}; or all.")] = "all",
    rounds: Annotated[int, typer.Option(min=3, help="Turns of every approach.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps per turn, after two that aren't.")] = 4,
    timeout: Annotated[
        float, typer.Option(callback=finite, min=1, help="Seconds that a start or a turn may take.")
    ] = 300.0,
    json_file: JSON = None,
) -> None:
    """Train the eight networks of ScaleDNN with batches that come from a master, are shared, and are made ahead.

    The networks have a quarter of the paper's channels (BERT-large an eighth), and images have 64×64 pixels, which are
    decoded as JPEG files are. "master" gives whole batches to rank 0, which splits them, broadcasts the parameters and
    gathers the gradients; "splitting" lets the ranks share each batch; "pre_loading" makes batches ahead, too;
    "ddp_gloo" is DDP over Gloo, where each rank makes its own part. The gradients are checked first. A step is split
    into the paper's six categories, those of rank 0: batches to a device, with their decoding ("HtoD"), from the master
    to others ("PtoP"), parameters ("broadcast"), computing ("FP+BP"), gradients ("reduce") and the update ("other").

    Exit code: 0, 1 when gradients were wrong or a rank failed, 2 without torch.
    """
    out, err = Console(), Console(stderr=True)
    if importlib.util.find_spec("torch") is None:
        err.print("paceline bench data needs torch.", highlight=False)
        raise typer.Exit(REFUSED)
    chosen = NETWORKS if models == "all" else tuple(name.strip() for name in models.split(","))
    if unknown := [name for name in chosen if name not in NETWORKS]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(NETWORKS)}", param_hint="--models")
    request = BenchRequest([system(batch * devices)], devices, timeout=timeout)
    with (
        ending(err) as complain,
        err.status("starting") as status,
        started(request, os.environ, complain) as sessions,
    ):
        if not sessions:
            raise typer.Exit(FAILED)
        found = measure(sessions[0], chosen, rounds, steps, status.update)
    show(out, table(found))
    if json_file is not None:
        write_json([asdict(row) for row in found], json_file)
    if any(row.wrong for row in found):
        raise typer.Exit(FAILED)


def table(rows: list[Row]) -> Table:
    """Return a table with a row for each network and approach."""
    words = ("network", "approach")
    figures = ("step(ms)", "quartiles", "batch(MB)", "hidden", "HtoD", "PtoP", "broadcast", "FP+BP", "reduce", "other")
    result = columns(*words, *figures, "#wrong", left=words)
    for row in rows:
        result.add_row(
            row.model,
            row.approach,
            f"{row.step_ms:.1f}",
            f"{row.step_ms_q1:.1f}–{row.step_ms_q3:.1f}",
            f"{row.batch_bytes / 1e6:.3f}",
            f"{row.hidden_share:.0%}",
            f"{row.host_to_device_ms:.1f}",
            f"{row.peer_to_peer_ms:.1f}",
            f"{row.broadcast_ms:.1f}",
            f"{row.compute_ms:.1f}",
            f"{row.reduce_ms:.1f}",
            f"{row.other_ms:.1f}",
            wrong(row.wrong),
        )
    return result
