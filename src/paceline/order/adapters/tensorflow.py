"""Turn the graph of a tf.function into a plain graph. Its collectives are those of Paceline's TensorFlow face."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline.order.graph import Collective, Graph, Node


def graph(operations: Iterable[Any], collectives: Mapping[str, Collective]) -> Graph:
    """Return the graph of these tf.Operations, in the order in which they were added; see `paceline.order.order`.

    An operation needs those that make its inputs, and those that it has as control dependencies. collectives: what
    operations move, by the operations' names; they are what is fetched.
    """
    listed = list(operations)
    place = {operation.name: number for number, operation in enumerate(listed)}
    nodes = tuple(Node(operation.name, collectives.get(operation.name)) for operation in listed)
    edges = tuple(
        (place[parent.name], place[operation.name])
        for operation in listed
        for parent in (*(tensor.op for tensor in operation.inputs), *operation.control_inputs)
        if parent.name in place
    )
    fetches = tuple(place[name] for name in collectives if name in place)
    return Graph(nodes, edges, fetches)
