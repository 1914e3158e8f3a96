"""`paceline bench order` measures what it costs to compute the order of a network's gradients in advance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.checks import installed
from paceline.formats.sizes import parse_bytes
from paceline.formats.terminal import show
from paceline_bench import option
from paceline_bench.graphs.measure import Row, measure
from paceline_bench.row import write_json
from paceline_bench.table import columns, table


def command(
    fusion: option.FUSION = "64M",
    rounds: Annotated[int, typer.Option(min=3, help="How many times each graph is ordered.")] = 31,
    json_file: option.JSON = None,
) -> None:
    """Order the gradients of nine networks and cut the order into fusion buffers.

    For comparison the table has the nodes, edges and milliseconds of the paper's traversal of TensorFlow's graphs of
    the same networks, on other machines. "ms" is the median of order and scheme together; "record" is what it took once
    to read the graph from autograd. The last row is a random graph with as many nodes and edges as the paper's largest.

    Exit code: 0, or 2 without torch.
    """
    out, err = Console(), Console(stderr=True)
    installed({"torch": "torch"})
    with err.status("") as status:
        rows = measure(rounds, parse_bytes(fusion), status.update)
    show(out, table(columns(Row), rows))
    if json_file is not None:
        write_json([asdict(row) for row in rows], json_file)
