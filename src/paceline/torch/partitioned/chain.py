"""What the partitioning needs to know of a profiled model, and of the links between ranks."""

from __future__ import annotations

import math

from paceline.topology import Node, Topology
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
        possible = all(value.kind != "other" for value in crossing)
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


def channel(topology: Topology, one: int, other: int) -> Channel:
    """The path between two places in a topology: the slowest link on it, and all its latencies."""
    ways = [_way(topology.root, place) for place in (one, other)]
    shared = sum(1 for left, right in zip(*ways, strict=False) if left is right)
    links = [node.uplink for way in ways for node in way[shared:] if node.uplink is not None]
    slowest = min((min(link.up, link.down) for link in links), default=math.inf)
    return Channel(1 / slowest, sum(link.latency for link in links))


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
