"""Some calls of a model in a row, as a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx, nn

from paceline.torch.partitioned.graph import Graph
from paceline.torch.partitioned.profile import Profile


class Part(nn.Module):
    """The calls from `begin` on and before `end`, as a module from the values `takes` to the values `gives`.

    What it takes stays as it is, also where the calls change it in place: it gives the changed value.
    """

    def __init__(
        self, graph: Graph, profile: Profile, begin: int, end: int, takes: Sequence[fx.Node], gives: Sequence[fx.Node]
    ) -> None:
        super().__init__()
        mutated = {name for call in profile.calls[begin:end] for name in call.mutates}
        self._mutated = [node.name in mutated for node in takes]
        self.calls = _calls(graph, begin, end, takes, gives)

    def forward(self, *taken: Any) -> tuple[Any, ...]:
        """Do the calls."""
        own = [value.clone() if mutated else value for value, mutated in zip(taken, self._mutated, strict=True)]
        found: tuple[Any, ...] = self.calls(*own)
        return found


def _calls(graph: Graph, begin: int, end: int, takes: Sequence[fx.Node], gives: Sequence[fx.Node]) -> fx.GraphModule:
    part = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {node: part.placeholder(node.name) for node in takes}

    def copied(node: fx.Node) -> fx.Node:
        if node.op == "get_attr" and node not in copies:
            copies[node] = part.node_copy(node)
        return copies[node]

    for call in graph.calls[begin:end]:
        copies[call] = part.node_copy(call, copied)
    part.output(tuple(copied(node) for node in gives))
    return fx.GraphModule(graph.root, part)
