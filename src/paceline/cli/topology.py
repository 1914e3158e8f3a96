"""`paceline topology` reads a description of a network and draws it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from paceline.cli.output_file import writable, write
from paceline.cli.usage import UsageError
from paceline.formats.terminal import show
from paceline.formats.yaml_lines import text_of
from paceline.topology import TopologyError, dump, parse, slurm
from paceline.topology.draw_svg import draw
from paceline.topology.draw_text import tree
from paceline.topology.file import FILE_KIND
from paceline.topology.tree import Topology
from paceline.topology.units import parse_speed


def command(
    file: Annotated[
        Path,
        typer.Argument(
            help="A topology in YAML, Slurm's topology.conf or topology.yaml, or what `scontrol show topology` prints.",
            show_default=False,
        ),
    ],
    svg: Annotated[
        Path | None, typer.Option("--draw", metavar="FILE", help="Draw it as SVG.", callback=writable)
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the tree.", callback=writable)
    ] = None,
    yaml: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as a topology file.", callback=writable)
    ] = None,
    ranks_per_machine: Annotated[
        int | None, typer.Option(min=1, help="For a file of Slurm: the ranks on each host.", show_default=False)
    ] = None,
    uplink: Annotated[str, typer.Option(help="For a file of Slurm: the speed of each host's link.")] = "",
    switch_uplink: Annotated[
        str, typer.Option(help="For a file of Slurm: the speed of a switch's link. [default: all its hosts' together]")
    ] = "",
) -> int:
    """Show a network as a tree: machines, their ranks, and the speed each way and latency of every link.

    JSON has bytes per second and seconds. docs/reference/topology.md describes the files.
    """
    try:
        topology = _read(file, ranks_per_machine, uplink, switch_uplink)
        show(Console(highlight=False), tree(topology))
        write(svg, lambda: str(draw(topology).as_svg()))
        write(json_file, lambda: json.dumps(asdict(topology), indent=1) + "\n")
        write(yaml, lambda: dump(topology))
    except TopologyError as error:
        raise UsageError(str(error)) from None
    return 0


def _read(file: Path, ranks: int | None, uplink: str, switch_uplink: str) -> Topology:
    text = text_of(file, FILE_KIND)
    if not slurm.looks_like_slurm(text):
        if ranks is not None or uplink or switch_uplink:
            raise TopologyError(
                f"{file} is no file of Slurm; it gives ranks and speeds itself, so leave out these options"
            )
        return parse(text, str(file))
    if ranks is None or not uplink:
        raise TopologyError(
            f"{file} is a file of Slurm, which gives neither ranks nor speeds; add for example "
            "--ranks-per-machine 8 --uplink '100 Gbit/s'"
        )
    try:
        between = parse_speed(switch_uplink) if switch_uplink else None
        return slurm.parse(text, str(file), ranks, parse_speed(uplink), between)
    except TopologyError:
        raise
    except ValueError as error:
        raise TopologyError(str(error)) from None
