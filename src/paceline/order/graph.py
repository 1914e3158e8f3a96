"""A computation graph in plain form: its nodes, what each needs, and which of them move data between the ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


class GraphError(ValueError):
    """A graph makes no sense. The message is a sentence that names the wrong node or edge, and what would be right."""


@dataclass(frozen=True, slots=True)
class Collective:
    """The data that a node moves between the ranks.

    name: the name under which the program submits it, once per step. nbytes: its size in bytes, all of one `dtype`. op:
    the reduction where `kind` is all_reduce.
    """

    name: str
    nbytes: int
    dtype: str = "float32"
    op: str = "sum"
    kind: str = "all_reduce"


@dataclass(frozen=True, slots=True)
class Node:
    """An operation of the graph; `collective` where it moves data, None where it computes."""

    name: str
    collective: Collective | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A computation graph. Numbers are indices into `nodes`.

    nodes: in the order in which they were added. edges: (parent, child), where the child needs the parent's result.
    fetches: the nodes whose results are wanted; they and all that they need are executed. parents: the parents of each
    node in the order of its edges. collectives: the nodes that move data. Both are derived from the other fields.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    fetches: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    collectives: dict[int, Collective] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Derive the parents and collectives.

        Raises GraphError for an edge or fetch without a node, two collectives of one name, and a negative size.
        """
        count = len(self.nodes)
        parents: list[list[int]] = [[] for _ in range(count)]
        for parent, child in self.edges:
            if not (0 <= parent < count and 0 <= child < count):
                raise GraphError(f"the edge ({parent}, {child}) leaves the graph: {count} nodes are numbered from 0")
            parents[child].append(parent)
        for fetch in self.fetches:
            if not 0 <= fetch < count:
                raise GraphError(f"the fetch {fetch} is not in the graph: {count} nodes are numbered from 0")
        collectives = {index: node.collective for index, node in enumerate(self.nodes) if node.collective is not None}
        names: set[str] = set()
        for collective in collectives.values():
            if collective.name in names:
                raise GraphError(f"two collectives have the name {collective.name!r}; give each a name of its own")
            if collective.nbytes < 0:
                raise GraphError(f"{collective.name!r} has {collective.nbytes} bytes; it should have 0 or more")
            names.add(collective.name)
        object.__setattr__(self, "parents", tuple(map(tuple, parents)))
        object.__setattr__(self, "collectives", collectives)


def parallel(collectives: Iterable[Collective]) -> Graph:
    """Return a graph of collectives none of which needs another, such as a step's gradients in the order of arrival."""
    nodes = tuple(Node(collective.name, collective) for collective in collectives)
    return Graph(nodes, (), tuple(range(len(nodes))))
