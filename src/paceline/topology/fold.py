"""Shorten a topology to fit on a page: equal neighbours become one part, and so does the rest of too many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from paceline.topology.tree import Kind, Link, Node, Topology

_FEWEST = 3
"""The fewest equal neighbours that are folded."""


@dataclass(frozen=True, slots=True)
class Part:
    """Neighbouring nodes that are drawn as one.

    ranks: the ranks below all of the nodes. alike: the nodes differ only in their names. children: those of the first
    node.
    """

    nodes: tuple[Node, ...]
    ranks: range
    alike: bool = True
    children: tuple[Part, ...] = ()

    @property
    def kind(self) -> Kind:
        """The kind of the first node."""
        return self.nodes[0].kind

    @property
    def name(self) -> str:
        """The names of the first and the last node."""
        first, last = self.nodes[0].name, self.nodes[-1].name
        return first if len(self.nodes) == 1 else f"{first} … {last}"

    @property
    def uplink(self) -> Link | None:
        """The link of every node, or None where they differ."""
        return self.nodes[0].uplink if self.alike else None

    def walk(self) -> Iterator[Part]:
        """Yield this part and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def local(self) -> Link | None:
        """The link of each rank where all children are ranks with equal links, else None."""
        links = {child.uplink for child in self.children}
        return self.children[0].uplink if self.ranks_alone() and len(links) == 1 else None

    def ranks_alone(self) -> bool:
        """Return whether there are children and all of them are ranks."""
        return bool(self.children) and all(child.kind == "rank" for child in self.children)


def fold(topology: Topology, most: int) -> Part:
    """Return the tree of a topology; with more than `most` machines, switches and sockets, equal neighbours are one."""
    whole = _part(topology.root, 0)
    if _count(whole) <= most:
        return whole
    shapes: dict[int, int] = {}
    _shape(topology.root, shapes, {})
    return _joined(whole, shapes)


def cut(part: Part, most: int) -> Part:
    """Return as much of a folded tree as fits into about `most` parts; the rest of each level becomes one part."""
    width = most
    while _count(narrow := _cut(part, width)) > most and width > 2:
        width //= 2
    return narrow


def _count(part: Part) -> int:
    return sum(part.kind != "rank" for part in part.walk())


def _part(node: Node, first: int) -> Part:
    children: list[Part] = []
    start = first
    for child in node.children:
        children.append(_part(child, start))
        start = children[-1].ranks.stop
    return Part((node,), range(first, max(start, first + 1)), children=tuple(children))


def _shape(node: Node, shapes: dict[int, int], known: dict[object, int]) -> int:
    """Number the node so that subtrees that differ only in names have equal numbers; store the numbers in `shapes`."""
    key = (node.kind, node.uplink, tuple(_shape(child, shapes, known) for child in node.children))
    shapes[id(node)] = known.setdefault(key, len(known))
    return shapes[id(node)]


def _joined(part: Part, shapes: dict[int, int]) -> Part:
    children: list[Part] = []
    for _, group in groupby(part.children, key=lambda child: shapes[id(child.nodes[0])]):
        alike = list(group)
        if len(alike) < _FEWEST or alike[0].kind == "rank":
            children += [_joined(child, shapes) for child in alike]
            continue
        nodes = tuple(child.nodes[0] for child in alike)
        below = _joined(alike[0], shapes).children
        children.append(Part(nodes, range(alike[0].ranks.start, alike[-1].ranks.stop), children=below))
    return replace(part, children=tuple(children))


def _cut(part: Part, width: int) -> Part:
    children = [_cut(child, width) for child in part.children]
    if len(children) > width and children[0].kind != "rank":
        rest = children[width - 1 :]
        nodes = tuple(node for child in rest for node in child.nodes)
        children[width - 1 :] = [Part(nodes, range(rest[0].ranks.start, rest[-1].ranks.stop), alike=False)]
    return replace(part, children=tuple(children))
