"""`paceline bench reductions` measures the kernels that combine ranks' data, beside what memory allows."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.formats.terminal import show
from paceline_bench import option, sizes
from paceline_bench.ending import FAILED
from paceline_bench.kernels.measure import Row, every_kernel, measure
from paceline_bench.report import columns, wrong
from paceline_bench.row import records, write_json

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
    words, places = ("type", "redop"), list(dict.fromkeys((row.buffer, row.bytes) for row in rows))
    figures = [(f"{buffer} {sizes.show(size)}: GB/s", "add GB/s", "to add", "#wrong") for buffer, size in places]
    result = columns(*words, *chain.from_iterable(figures), left=words)
    for dtype, op in dict.fromkeys((row.dtype, row.op) for row in rows):
        cells = []
        for place in places:
            for row in rows:
                if (row.dtype, row.op, (row.buffer, row.bytes)) == (dtype, op, place):
                    cells += [f"{row.algbw_gbps:.1f}", f"{row.add_gbps:.1f}", f"{row.to_add:.2f}", wrong(row.wrong)]
        result.add_row(dtype, op, *cells)
    return result
