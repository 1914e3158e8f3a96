"""The plain form of a computation graph: what runs, what needs what, and what of it moves data between the ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


class GraphError(ValueError):
    """A graph makes no sense; the one sentence says which node or edge is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class Collective:
    """What a node moves between the ranks: `nbytes` bytes of one dtype, reduced by `op` where `kind` is all_reduce.

    `name` is what the program hands it in under, once per step.
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
    """Nodes in the order in which they were added; edges (parent, child): the child needs the parent's outcome.

    fetches: what is wanted of an execution; it and all that it needs is executed. Numbers are indices into `nodes`.
    parents: of each node those at its edges, in their order; collectives: the nodes that move data. Both follow.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    fetches: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    collectives: dict[int, Collective] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises GraphError for an edge or fetch of no node, and for two collectives of one name."""
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
    """A graph of collectives none of which waits for another, such as a step's gradients as they were seen to come."""
    nodes = tuple(Node(collective.name, collective) for collective in collectives)
    return Graph(nodes, (), tuple(range(len(nodes))))
