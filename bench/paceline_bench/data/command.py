"""`paceline bench data` trains the networks of ScaleDNN on devices behind slow links, in several ways."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.checks import installed, ranks_here
from paceline.cli.output_file import writable, write
from paceline.formats.terminal import show
from paceline_bench.data.devices import lab
from paceline_bench.data.draw import chart
from paceline_bench.data.explain import sentences
from paceline_bench.data.measure import CATEGORIES, NETWORKS, Row, measure, system
from paceline_bench.ending import FAILED, ending
from paceline_bench.option import JSON, selection, time_limit
from paceline_bench.row import write_json
from paceline_bench.run import BenchRequest, started
from paceline_bench.table import columns, table

_FIGURES = ("step_ms", "step_ms_q1", "to_master", "batch_bytes", "hidden_share")
SHOWN = ("model", "approach", *_FIGURES, *CATEGORIES, "wrong")
"""The columns of the table."""


def command(
    devices: Annotated[
        int, typer.Option("-n", "--devices", min=2, callback=ranks_here, help="Ranks that stand for devices.")
    ] = 4,
    batch: Annotated[int, typer.Option(min=1, help="Samples per device and step.")] = 8,
    models: Annotated[str, selection(NETWORKS)] = "all",
    rounds: Annotated[int, typer.Option(min=3, help="Turns of every approach.")] = 5,
    steps: Annotated[int, typer.Option(min=1, help="Timed steps per turn, after two that aren't.")] = 4,
    timeout: Annotated[float, time_limit("a start or a turn")] = 300.0,
    svg: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Draw the steps as stacked bars, as SVG.", callback=writable),
    ] = None,
    json_file: JSON = None,
) -> None:
    """Train the eight networks of ScaleDNN on devices that have their batches from a host, in six ways.

    Each device is a rank on a machine of a lab, and so is the host, whose link carries 250 Mbit/s and those of the
    devices 2 Gbit/s: to what two cores compute they are as a PCIe bus is to GPUs. The networks have a quarter of the
    paper's channels (BERT-large an eighth), and images have 64×64 pixels. "master" gives whole batches to the first
    device, which splits them, broadcasts the parameters and gathers the gradients; with "splitting" the host cuts the
    batches; with "pre_loading" the next batch comes while the devices compute, too; with "three_in_one" the parameters
    are compressed, too. "ddp_gloo" is DDP over Gloo and "horovod_fp16" Horovod's API over Paceline with gradients as
    float16, both with batches that the host cuts. The gradients are checked first. A step is split into the paper's six
    categories, those of the first device: the way of a batch to the device that waits for it ("HtoD"), from the master
    to others ("PtoP"), parameters ("broadcast"), computing ("FP+BP"), gradients ("reduce") and the update ("other").
    DDP and Horovod exchange gradients while they compute. Below the table a sentence says which idea did not make the
    step of which network shorter, and what took longer instead. A lab needs root.

    Exit code: 0, 1 when gradients were wrong or a rank failed, 2 without torch or a lab.
    """
    out, err = Console(), Console(stderr=True)
    installed({"torch": "torch"})
    with (
        ending(err) as complain,
        err.status("starting") as status,
        lab(devices) as machines,
        started(
            BenchRequest([system(batch * devices)], devices + 1, lab=machines, timeout=timeout), os.environ, complain
        ) as sessions,
    ):
        if not sessions:
            raise typer.Exit(FAILED)
        found = measure(sessions[0], machines, models.split(","), rounds, steps, status.update)
    show(out, table(columns(Row, *SHOWN), found, section=lambda row: row.model))
    for sentence in sentences(found):
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    write(svg, lambda: str(chart(found).as_svg()))
    if json_file is not None:
        write_json([asdict(row) for row in found], json_file)
    if any(row.wrong for row in found):
        raise typer.Exit(FAILED)
