"""`paceline plan` predicts what an all-reduce does to a network, or how a model is best divided on it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import drawsvg
import typer
from rich.console import Console
from rich.text import Text

from paceline.cli.output_file import writable, write
from paceline.cli.plan_model import plan_model
from paceline.cli.usage import LINK, LINKS, UsageError
from paceline.formats.sizes import parse_bytes, show_bytes, show_seconds
from paceline.plan import show
from paceline.plan.algorithms import ALGORITHMS, Algorithm, named
from paceline.plan.auto import CODEC, pays
from paceline.plan.bound import Bound, bound
from paceline.plan.choose import pick
from paceline.plan.codecs import CODECS, ENCODED_FROM
from paceline.plan.cost import Cost, cost
from paceline.plan.draw import draw
from paceline.plan.draw_chart import chart
from paceline.plan.network import Network
from paceline.plan.outline import Outline
from paceline.simulate.assumptions import of_links
from paceline.simulate.links import relinked
from paceline.topology import Topology, TopologyError, read

Rows = Sequence[Mapping[str, Any]]
"""The content of the file that --json writes."""


def command(
    topology_file: Annotated[
        Path,
        typer.Option(
            "--topology", metavar="FILE", help="The network: see docs/reference/topology.md.", show_default=False
        ),
    ],
    nbytes: Annotated[str, typer.Option("--bytes", help="Size of the buffer: 4K, 32M, 1G.")] = "32M",
    algorithm: Annotated[
        str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}. [default: what Paceline would choose]")
    ] = "",
    compare: Annotated[bool, typer.Option("--compare", help="Compare all algorithms, and all codecs.")] = False,
    model: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Divide a model instead: the function returns a torch module and an example of a batch of all ranks.",
            show_default=False,
        ),
    ] = "",
    schedule: Annotated[str, typer.Option(help="With --model: the pipeline schedule.")] = "1F1B",
    memory: Annotated[
        str, typer.Option(help="With --model: what each rank may use, as 3G.", show_default="as much as it needs")
    ] = "",
    links: Annotated[
        list[str] | None, typer.Option("--link", metavar=LINK, help=f"Instead of the file's: {LINKS}.")
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--draw",
            metavar="FILE",
            help="Draw it as SVG: the plan, with --compare the bars, with --model the step.",
            callback=writable,
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE",
            help="Write one row for each algorithm and codec, or shape of a model.",
            callback=writable,
        ),
    ] = None,
) -> int:
    """Predict an all-reduce on a network: what goes over which link, how long it takes, and what none can beat (T*).

    With --model: into how many partitions, replicas and microbatches the model is best divided, as
    `paceline.torch.hybrid` with partitions="auto" would. It is measured on this machine, with torch's threads.
    """
    console = Console(highlight=False, markup=False)
    try:
        size = parse_bytes(nbytes)
        topology = relinked(read(topology_file), links or ())
        assumed = list(of_links(topology))
        rows: Rows
        if model:
            if compare or algorithm:
                raise ValueError("--model divides a model; leave out --compare and --algorithm")
            found = plan_model(model, topology, parse_bytes(memory) if memory else math.inf, schedule, console)
            drawn, rows = found.picture, found.rows
        elif compare:
            if algorithm:
                raise ValueError("--compare shows all algorithms; leave out --algorithm")
            drawn, rows = _compare(topology, size, console)
        else:
            drawn, rows = _one(topology, size, algorithm, console)
        for line in assumed:
            console.print(f"assumed: {line}", soft_wrap=True)
        write(svg, lambda: str(drawn().as_svg()))
        write(json_file, lambda: json.dumps([{**one, "assumed": assumed} for one in rows], indent=1) + "\n")
    except (TopologyError, ValueError) as error:
        raise UsageError(str(error)) from None
    return 0


def row(cost: Cost, bound: Bound) -> dict[str, Any]:
    """Return the result of one algorithm, or of one codec with it, for programs: seconds, and the bytes of the whole
    all-reduce by link."""
    return {
        "algorithm": cost.algorithm,
        "codec": cost.codec,
        "bytes": cost.nbytes,
        "seconds": cost.seconds,
        "barrier_seconds": cost.barrier,
        "bound_seconds": bound.seconds,
        "ratio": show.ratio(cost, bound),
        "bytes_per_link": {link.name: {"up": round(link.bytes), "down": round(link.bytes)} for link in cost.links},
    }


def _one(topology: Topology, nbytes: int, name: str, console: Console) -> tuple[Callable[[], drawsvg.Drawing], Rows]:
    network, least = Network(topology), bound(topology, nbytes)
    lines, reason = _lines(topology, nbytes, name)
    predicted = cost(lines, network, nbytes)
    what = f" on {topology.name}, {network.world} ranks, {show_bytes(nbytes)}"
    console.print(Text.assemble((lines.name, "bold"), what), soft_wrap=True)
    if reason:
        console.print(reason, soft_wrap=True)
    console.print(show.levels(predicted))
    console.print(show.links(predicted))
    console.print(
        f"predicted {show_seconds(predicted.seconds)} ({show_seconds(predicted.barrier)} with a barrier after every "
        f"level); T* {show_seconds(least.seconds)}; ratio {show.ratio(predicted, least):.3f}",
        soft_wrap=True,
    )
    console.print(f"T*: {least.reason}", soft_wrap=True)
    return (lambda: draw(lines, network, predicted, least)), [row(predicted, least)]


def _lines(topology: Topology, nbytes: int, name: str) -> tuple[Outline, str]:
    if name:
        return named(name).lines(topology), ""
    choice = pick("all_reduce", topology, nbytes)
    return choice.outline, choice.reason


def _compare(topology: Topology, nbytes: int, console: Console) -> tuple[Callable[[], drawsvg.Drawing], Rows]:
    network, least = Network(topology), bound(topology, nbytes)

    def predicted(algorithm: Algorithm) -> Cost:
        return cost(algorithm.lines(topology), network, nbytes)

    costs = [predicted(algorithm) for algorithm in ALGORITHMS.values()]
    what = f", {network.world} ranks, {show_bytes(nbytes)}, all-reduce"
    console.print(Text.assemble((topology.name, "bold"), what), soft_wrap=True)
    console.print(show.comparison(costs, least))
    console.print(f"T* {show_seconds(least.seconds)}: {least.reason}", soft_wrap=True)
    quickest = min(costs, key=lambda cost: cost.seconds)
    encoded = _encoded(quickest, topology, network)
    if encoded:
        console.print(show.codecs(quickest, encoded))
        (by_auto,) = (one for one in encoded if one.codec == CODEC.name)
        used = CODEC.name if pays(quickest.seconds, by_auto.seconds) else "no codec"
        console.print(f"For this size PACELINE_COMPRESS=auto would use {used} with this algorithm.", soft_wrap=True)
    return (lambda: chart(costs, least, topology.name)), [row(one, least) for one in (*costs, *encoded)]


def _encoded(plain: Cost, topology: Topology, network: Network) -> Sequence[Cost]:
    """Return this cost with every codec; nothing where the engine encodes nothing."""
    machines = sum(len(ranks) > 0 for _, ranks in topology.machines())
    if machines < 2 or plain.nbytes < ENCODED_FROM:
        return []
    lines = named(plain.algorithm).lines(topology)
    return [cost(lines, network, plain.nbytes, codec=codec) for codec in CODECS.values()]
