"""The time that a model takes as a whole: its calls one by one find more in the cache, and measuring slows each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from paceline.torch.partitioned.calls import run, tensors_in
from paceline.torch.partitioned.crowds import Clock
from paceline.torch.partitioned.graph import Graph, attribute

_ROUNDS = 2
"""The number of timings, after one that makes the gradients which later rounds add to; the fastest counts."""


def whole(graph: Graph, inputs: Sequence[Tensor], end: int, clock: Clock) -> tuple[float, float]:
    """Return the seconds of a forward and of a backward of the calls before `end`, by this clock.

    The backward adds to gradients, as that of a later microbatch does. The gradients of the model's parameters are
    afterwards what they were.
    """
    parameters = [parameter for parameter in graph.root.parameters() if parameter.requires_grad]
    kept = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        rounds = [_round(graph, inputs, end, clock) for _ in range(1 + _ROUNDS)][1:]
    finally:
        for parameter, gradient in zip(parameters, kept, strict=True):
            parameter.grad = gradient
    return min(forward for forward, _ in rounds), min(backward for _, backward in rounds)


def _round(graph: Graph, inputs: Sequence[Tensor], end: int, clock: Clock) -> tuple[float, float]:
    values: dict[fx.Node, Any] = {
        node: value.clone()
        for node, value in zip(graph.inputs, inputs, strict=True)  # a call may change them in place
    }
    begin = clock()
    for index, call in enumerate(graph.calls[:end]):
        given: dict[fx.Node, Any] = {
            node: attribute(graph.root, str(node.target)) if node.op == "get_attr" else values[node]
            for node in call.all_input_nodes
        }
        args, kwargs = fx.node.map_arg((call.args, call.kwargs), given.__getitem__)
        values[call] = run(graph.root, call, args, kwargs)
        for node in call.all_input_nodes:
            if node.op != "get_attr" and graph.last_use[node] == index:
                del values[node]
        del given, args, kwargs
    made = clock()
    outputs = [one for node in graph.crossing(end) for one in tensors_in(values[node]) if one.requires_grad]
    if not outputs:
        return made - begin, 0.0
    gradients = [torch.ones_like(output) for output in outputs]
    values.clear()
    middle = clock()
    torch.autograd.backward(outputs, gradients)
    return made - begin, clock() - middle
