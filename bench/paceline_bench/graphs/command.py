"""`paceline bench order` measures what it costs to compute the order of a network's gradients in advance."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli.checks import installed
from paceline.formats.sizes import parse_bytes
from paceline.formats.terminal import show
from paceline_bench import option
from paceline_bench.graphs.measure import Row, measure
from paceline_bench.report import columns
from paceline_bench.row import write_json


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
    show(out, table(rows))
    if json_file is not None:
        write_json([asdict(row) for row in rows], json_file)


def table(rows: list[Row]) -> Table:
    """Return a table with a row for each network."""
    figures = ("nodes", "edges", "tensors", "buffers", "ms", "quartiles", "record(ms)", "paper: nodes", "edges", "ms")
    result = columns("network", *figures, left=("network",))
    for row in rows:
        result.add_row(
            row.network,
            *map(str, (row.nodes, row.edges, row.tensors, row.buffers)),
            f"{row.ms:.2f}",
            f"{row.ms_q1:.2f}–{row.ms_q3:.2f}",
            f"{row.record_ms:.1f}",
            *((str(row.paper_nodes), str(row.paper_edges), f"{row.paper_ms:g}") if row.paper_ms else ("", "", "")),
        )
    return result
