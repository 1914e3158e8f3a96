"""`paceline order` shows the order in which ranks would issue a graph's collectives, and which would be fused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError
from paceline.formats.sizes import parse_bytes, show_bytes
from paceline.order import Graph, GraphError, Order, Scheme, executed, order, scheme
from paceline.order.file import read


def command(
    file: Annotated[
        Path, typer.Argument(help="A graph in YAML or JSON: see docs/design/order.md.", show_default=False)
    ],
    fusion: Annotated[str, typer.Option("--fusion-bytes", help="The most in one buffer: 4K, 64M.")] = "64M",
    svg: Annotated[
        Path | None, typer.Option("--draw", metavar="FILE", help="Draw it as SVG.", callback=writable)
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write ids and buffers to this file.", callback=writable),
    ] = None,
) -> int:
    """Order the collectives of a computation graph, and show which share a fusion buffer and why no more do."""
    try:
        fusion_bytes = parse_bytes(fusion)
        graph = read(file)
        try:
            ordered = order(graph)
        except GraphError as error:
            raise GraphError(f"{file}: {error}") from None
        found = scheme(graph, ordered, fusion_bytes)
        _show(graph, ordered, found, Console(highlight=False, markup=False))
        if svg is not None:
            from paceline.order.draw import draw

            write(svg, lambda: str(draw(graph, ordered, found, file.stem).as_svg()))
        write(json_file, lambda: json.dumps(document(graph, ordered, found), indent=1) + "\n")
    except ValueError as error:
        raise UsageError(str(error)) from None
    return 0


def document(graph: Graph, ordered: Order, found: Scheme) -> dict[str, object]:
    """Return the result for programs. `after` is the highest id that a collective depends on, or None."""
    nodes, edges = executed(graph, ordered)
    items = (graph.collectives[node] for node in ordered.nodes)
    return {
        "nodes": nodes,
        "edges": edges,
        "collectives": [
            {
                "id": number,
                "name": item.name,
                "kind": item.kind,
                "bytes": item.nbytes,
                "dtype": item.dtype,
                "op": item.op,
                "depth": ordered.depths[ordered.nodes[number]],
                "after": None if ordered.after[number] < 0 else ordered.after[number],
            }
            for number, item in enumerate(items)
        ],
        "buffers": [
            {"names": names, "bytes": nbytes, "ends": reason}
            for names, nbytes, reason in zip(found.buffers, found.nbytes, found.reasons, strict=True)
        ],
    }


def _show(graph: Graph, ordered: Order, found: Scheme, console: Console) -> None:
    nodes, edges = executed(graph, ordered)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("buffer", "id", "collective", "bytes", "depth"):
        table.add_column(title, justify="left" if title == "collective" else "right")
    table.add_column("buffer ends", overflow="fold")
    number = 0
    for buffer, names in enumerate(found.buffers):
        for place, name in enumerate(names):
            node = ordered.nodes[number]
            table.add_row(
                "" if place else str(buffer),
                str(number),
                name,
                show_bytes(graph.collectives[node].nbytes),
                str(ordered.depths[node]),
                found.reasons[buffer] if place == len(names) - 1 else "",
            )
            number += 1
    if number:
        console.print(table)
    noun = "buffer" if len(found.buffers) == 1 else "buffers"
    console.print(f"{nodes} nodes and {edges} edges are executed; {number} collectives in {len(found.buffers)} {noun}")
