"""Doing the calls of a traced model in order, with the values that are still needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, fx

from paceline.torch.partitioned.calls import run
from paceline.torch.partitioned.graph import Graph, attribute

Values = dict[fx.Node, Any]


def walk(
    graph: Graph,
    inputs: Sequence[Tensor],
    done: Callable[[int, Values], None],
    before: Callable[[int, Values], None] = lambda *_: None,
    until: Mapping[fx.Node, int] | None = None,
) -> Values:
    """Do all calls and return what is left: the values that the model returns.

    before, done: called around each call, with its number and the values that exist then. until: the call behind which
    a value is not needed any more; by default its last use.
    """
    last = until if until is not None else graph.last_use
    values: Values = dict(zip(graph.inputs, inputs, strict=True))
    for index, call in enumerate(graph.calls):
        before(index, values)
        given: Values = {
            node: attribute(graph.root, str(node.target)) if node.op == "get_attr" else values[node]
            for node in call.all_input_nodes
        }
        args, kwargs = fx.node.map_arg((call.args, call.kwargs), given.__getitem__)
        values[call] = run(graph.root, call, args, kwargs)
        del given, args, kwargs
        done(index, values)
        for node in [node for node in (*call.all_input_nodes, call) if node in values and last.get(node, -1) <= index]:
            del values[node]
    return values
