"""Measures how long it takes to order the gradients of a network and to cut the order into fusion buffers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import quantiles

from paceline.order import Collective, Graph, Node, executed, order, scheme
from paceline_bench.table import column

LARGE = 28_000
"""The number of nodes and edges together of a graph as large as that of the paper's largest network."""


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A row of table I of Pumma et al.: their TensorFlow graph, and the milliseconds of their traversal of it."""

    nodes: int
    edges: int
    ms: float


PAPER = {
    "ResNet-18": Paper(nodes=1_714, edges=2_565, ms=32),
    "ResNet-34": Paper(nodes=2_866, edges=4_325, ms=86),
    "ResNet-50": Paper(nodes=3_988, edges=6_042, ms=159),
    "ResNet-101": Paper(nodes=7_558, edges=11_499, ms=594),
    "ResNet-152": Paper(nodes=11_128, edges=16_956, ms=1_274),
    "AlexNet": Paper(nodes=655, edges=893, ms=6),
    "GoogLeNet": Paper(nodes=3_499, edges=4_970, ms=182),
    "Inception-v3": Paper(nodes=6_146, edges=9_211, ms=382),
    "VGG16": Paper(nodes=1_091, edges=1_479, ms=17),
}


def _known(figure: float) -> str:
    return f"{figure:g}" if figure else ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One network.

    ms: median over the rounds of the time of order and scheme together, with quartiles. record_ms: the time, measured
    once, to make the graph from what autograd recorded. paper_*: 0 if the paper has no such row.
    """

    network: str = field(metadata=column("network"))
    nodes: int = field(metadata=column("nodes"))
    edges: int = field(metadata=column("edges"))
    tensors: int = field(metadata=column("tensors"))
    buffers: int = field(metadata=column("buffers"))
    ms: float = field(metadata=column("ms", "{:.2f}"))
    ms_q1: float = field(metadata=column("quartiles", "{:.2f}–{:.2f}", "ms_q3"))
    ms_q3: float
    record_ms: float = field(metadata=column("record(ms)", "{:.1f}"))
    paper_nodes: int = field(metadata=column("paper: nodes", _known))
    paper_edges: int = field(metadata=column("edges", _known))
    paper_ms: float = field(metadata=column("ms", _known))


def measure(rounds: int, fusion_bytes: int, progress: Callable[[str], None]) -> list[Row]:
    """Measure all networks and the large graph, in turn in each round."""
    graphs: list[tuple[str, Graph, float]] = []
    for name, make in _graphs():
        progress(f"recording {name}")
        begin = time.perf_counter()
        graph = make()
        graphs.append((name, graph, time.perf_counter() - begin))
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in graphs}
    for number in range(rounds):
        progress(f"round {number + 1}")
        for name, graph, _ in graphs:
            begin = time.perf_counter()
            scheme(graph, order(graph), fusion_bytes)
            seconds[name].append(time.perf_counter() - begin)
    return [_row(name, graph, seconds[name], recorded, fusion_bytes) for name, graph, recorded in graphs]


def large_graph(size: int = LARGE) -> Graph:
    """Return a random graph with `size` nodes and edges, in the ratio 2 to 3, long and with many bypasses."""
    rng = random.Random(1)
    count = size * 2 // 5
    nodes = tuple(Node(f"n{i}", Collective(f"n{i}", 4096) if i % 24 == 0 else None) for i in range(count))
    edges = [(i, i + 1) for i in range(count - 1)]
    while len(edges) < size - count:
        parent = rng.randrange(count - 1)
        edges.append((parent, min(count - 1, parent + rng.randint(2, 50))))
    return Graph(nodes, tuple(edges), (count - 1,))


def _graphs() -> Iterator[tuple[str, Callable[[], Graph]]]:
    import torch

    from paceline.order.adapters import autograd
    from paceline_bench.ranks.models import NETWORKS, pixels

    for name, make in NETWORKS.items():
        with torch.device("meta"):  # the graph needs no numbers
            model = make()
            scores = model(torch.empty(1, 3, pixels(name), pixels(name)))
        yield name, lambda model=model, scores=scores: autograd.graph(scores, model.named_parameters())  # type: ignore[misc]
    yield f"{LARGE} random", large_graph


def _row(name: str, graph: Graph, seconds: list[float], recorded: float, fusion_bytes: int) -> Row:
    ordered = order(graph)
    nodes, edges = executed(graph, ordered)
    first, middle, third = (value * 1e3 for value in quantiles(seconds, n=4, method="inclusive"))
    paper = PAPER.get(name, Paper(nodes=0, edges=0, ms=0))
    return Row(
        network=name,
        nodes=nodes,
        edges=edges,
        tensors=len(ordered.nodes),
        buffers=len(scheme(graph, ordered, fusion_bytes).buffers),
        ms=round(middle, 4),
        ms_q1=round(first, 4),
        ms_q3=round(third, 4),
        record_ms=round(recorded * 1e3, 2),
        paper_nodes=paper.nodes,
        paper_edges=paper.edges,
        paper_ms=paper.ms,
    )
