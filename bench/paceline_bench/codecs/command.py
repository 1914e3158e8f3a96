"""`paceline bench codecs` measures the codecs, beside a copy of the same elements."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from paceline.formats.terminal import show
from paceline_bench import option
from paceline_bench.codecs.measure import Row, measure
from paceline_bench.codecs.weights import trained
from paceline_bench.ending import FAILED
from paceline_bench.row import write_json
from paceline_bench.table import columns, table

WIDEST = 4
"""The size in bytes of the widest element."""
SHOWN = (
    *("codec", "dtype", "buffer", "bytes", "ratio", "max_relative_error"),
    *("encode_gbps", "encode_to_memcpy", "decode_gbps", "decode_to_memcpy", "memcpy_gbps", "wrong"),
)
"""The columns of the table."""


def command(
    cached: Annotated[
        str, typer.Option(help="Bytes of elements that fit in the cache.", callback=option.size)
    ] = "256K",
    large: Annotated[str, typer.Option(help="Bytes of elements that do not.", callback=option.size)] = "64M",
    rounds: Annotated[int, typer.Option(min=3, help="Bursts per codec and size.")] = 7,
    json_file: option.JSON = None,
) -> None:
    """Measure every codec with every dtype that it takes, in one thread.

    The elements are the weights of a small network, trained for this, over and over. GB/s count them before they are
    encoded, per second of CPU time; "to copy" is the median over the rounds of the speed over that of a memcpy of the
    same elements right before. The error of an element is given over the largest magnitude of its group of 128.
    Results are checked first.

    Exit code: 0, or 1 when an error was larger than the codec may make.
    """
    buffers = option.buffers(cached, large, WIDEST)
    out, err = Console(), Console(stderr=True)
    rows: list[Row] = []
    with err.status("training a small network") as status:
        weights = trained()
        for size, buffer in buffers:
            rows += measure(size, buffer, weights, rounds, status.update)
    show(out, table(columns(Row, *SHOWN), rows))
    if json_file is not None:
        write_json([asdict(row) for row in rows], json_file)
    if any(row.wrong for row in rows):
        raise typer.Exit(FAILED)
