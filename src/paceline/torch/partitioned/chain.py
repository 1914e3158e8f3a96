"""The facts about a profiled model, and about the links between ranks, that the partitioning needs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from paceline.topology import Link, Node, Topology
from paceline.torch.partitioned.cut import Chain, Channel, Times, Weight
from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.profile import Profile
from paceline.torch.partitioned.values import Value


def chain(graph: Graph, profile: Profile) -> Chain:
    """The model's calls as a chain, for microbatches of the profile's size."""
    known = values(graph, profile)
    up, down = [], []
    for place in range(len(graph.calls) + 1):
        crossing = [known[node.name] for node in graph.crossing(place)]
        possible = place not in profile.inseparable and all(value.kind != "other" for value in crossing)
        up.append(sum(value.nbytes(profile.samples) for value in crossing) if possible else math.inf)
        down.append(float(sum(value.nbytes(profile.samples) for value in crossing if value.differentiable)))
    return Chain(
        [call.kept.forward for call in profile.calls],
        [call.kept.backward for call in profile.calls],
        [call.saved for call in profile.calls],
        [result.nbytes(profile.samples) if result.kind == "tensor" else 0 for result in profile.results],
        up,
        down,
        [
            [Weight(id(tensor), tensor.nbytes, tensor.requires_grad) for tensor in graph.tensors(call)]
            for call in graph.calls
        ],
        Times([call.returned.forward for call in profile.calls], [call.returned.backward for call in profile.calls]),
    )


def values(graph: Graph, profile: Profile) -> dict[str, Value]:
    """Every value of the model's forward, by its name in the graph."""
    nodes = (*graph.inputs, *graph.calls)
    return {node.name: value for node, value in zip(nodes, (*profile.inputs, *profile.results), strict=True)}


def channel(topology: Topology, pairs: Sequence[tuple[int, int]]) -> Channel:
    """The slowest of the paths from the first to the second place of each pair, all of which are used at once.

    A path has the speed of its slowest link, and all its latencies. Paths that cross a link in the same direction share
    its speed.
    """
    paths = [_path(topology, *pair) for pair in pairs]
    users = Counter((id(node), up) for path in paths for node, _, up in path)
    return max(
        (
            Channel(
                max((users[id(node), up] / min(link.up, link.down) for node, link, up in path), default=0.0),
                sum(link.latency for _, link, _ in path),
            )
            for path in paths
        ),
        key=lambda found: (found.per_byte, found.latency),
    )


def _path(topology: Topology, one: int, other: int) -> list[tuple[Node, Link, bool]]:
    """The nodes whose links lead from one place to another, their links, and whether the way is up."""
    ways = [_way(topology.root, place) for place in (one, other)]
    shared = sum(1 for left, right in zip(*ways, strict=False) if left is right)
    return [
        (node, node.uplink, up)
        for way, up in zip(ways, (True, False), strict=True)
        for node in way[shared:]
        if node.uplink is not None
    ]


def _way(node: Node, place: int) -> list[Node]:
    """The nodes from the root down to the rank at this place."""
    way = [node]
    while node.kind != "rank":
        for child in node.children:
            if place < child.size:
                node = child
                break
            place -= child.size
        way.append(node)
    return way
