"""`paceline bench reductions` measures the kernels that combine ranks' data, beside what memory allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.formats.terminal import show
from paceline_bench import option, sizes
from paceline_bench.ending import FAILED
from paceline_bench.kernels.measure import Row, every_kernel, measure
from paceline_bench.row import records, write_json
from paceline_bench.table import columns, empty

WIDEST = 8
"""The size in bytes of the widest element."""


def command(
    cached: Annotated[
        str, typer.Option(help="Bytes of an operand that fits in the cache.", callback=option.size)
    ] = "128K",
    large: Annotated[str, typer.Option(help="Bytes of an operand that does not.", callback=option.size)] = "64M",
    rounds: Annotated[int, typer.Option(min=3, help="Bursts per kernel and size.")] = 7,
    json_file: option.JSON = None,
) -> None:
    """Measure every dtype with every reduction: two inputs, one output, one thread.

    Each burst follows one of a plain float32 addition over as many bytes, which is what this machine's memory allows.
    GB/s counts inputs and output; "to add" is the median over the rounds of the kernel's time over the addition's.
    Results are checked first.

    Exit code: 0, or 1 when a result was wrong.
    """
    buffers = option.buffers(cached, large, WIDEST)
    out, err = Console(), Console(stderr=True)
    rows: list[Row] = []
    with err.status("") as status:
        for size, buffer in buffers:
            rows += measure(size, buffer, every_kernel(), rounds, status.update)
    show(out, table(rows))
    if json_file is not None:
        write_json(records(rows), json_file)
    if any(row.wrong for row in rows):
        raise typer.Exit(FAILED)


def table(rows: list[Row]) -> Table:
    """Return a table with a row for each kernel and both sizes side by side."""
    places = list(dict.fromkeys((row.buffer, row.bytes) for row in rows))
    speed, *others = figures = columns(Row, "algbw_gbps", "add_gbps", "to_add", "wrong")
    shown = columns(Row, "dtype", "op")
    for buffer, size in places:
        shown += [replace(speed, heading=f"{buffer} {sizes.show(size)}: {speed.heading}"), *others]
    result = empty(shown)
    for dtype, op in dict.fromkeys((row.dtype, row.op) for row in rows):
        here = {(row.buffer, row.bytes): row for row in rows if (row.dtype, row.op) == (dtype, op)}
        result.add_row(dtype, op, *(one.text(here[place]) for place in places if place in here for one in figures))
    return result
