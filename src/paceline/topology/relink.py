"""Update a known network after a measurement: its links as they were found, and switches that were not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from paceline.calibration import topology as fitted
from paceline.topology.discover import Placement
from paceline.topology.measured import Load
from paceline.topology.nest import Below, free_name, nest, numbered
from paceline.topology.tree import Link, Node, Topology


def relink(known: Placement, found: Placement, loads: Sequence[Load]) -> Placement:
    """Return `known` with the machines' links and the switches that a measurement of the same ranks `found`.

    A known switch whose link limited nothing this time keeps it, unless the machines below carried more together. A
    known switch goes where a found one overlaps it without being nested. The insides of machines stay as they were.
    loads: what was measured; machines are numbered in the order of their first ranks. Places are renumbered.
    """
    before, now = joined(known), joined(found)
    machines = sorted((ranks for ranks, node in before.items() if node.kind == "machine"), key=min)
    shown = {ranks: node for ranks, node in now.items() if node.kind == "switch"}
    switches = dict(shown)
    for ranks, node in before.items():
        if node.kind == "switch" and all(ranks <= other or other <= ranks or not ranks & other for other in shown):
            below = [number for number, machine in enumerate(machines) if machine <= ranks]
            switches[ranks] = replace(node, uplink=_link(node, shown.get(ranks), _carried(loads, below)))
    taken = {node.name for node in before.values()}
    place = {rank: place for place, rank in enumerate(known.ranks)}
    smallest = sorted(switches, key=lambda ranks: (len(ranks), min(place[rank] for rank in ranks)))
    children = nest(
        {_places(ranks, place): replace(before[ranks], uplink=now[ranks].uplink) for ranks in machines},
        [
            (
                _places(ranks, place),
                switches[ranks].name if ranks in before else free_name(switches[ranks].name, taken),
                _uplink(switches[ranks]),
            )
            for ranks in smallest
        ],
    )
    root = replace(known.topology.root, children=children)
    ranks_of = {before[ranks].name: sorted(ranks, key=place.__getitem__) for ranks in machines}
    order = [rank for node in root.walk() if node.kind == "machine" for rank in ranks_of[node.name]]
    return Placement(Topology(known.topology.name, numbered(root, count())), tuple(order))


def joined(placement: Placement) -> dict[Below, Node]:
    """Machines and switches that join some ranks to others, by these ranks; the lowest of several with equal ranks."""
    nodes: dict[Below, Node] = {}

    def walk(node: Node, first: int) -> None:
        ranks = frozenset(placement.ranks[first : first + node.size])
        if node.kind in ("machine", "switch") and 0 < len(ranks) < len(placement.ranks):
            nodes[ranks] = node
        for child in node.children:
            walk(child, first)
            first += child.size

    walk(placement.topology.root, 0)
    return nodes


def _link(known: Node, found: Node | None, carried: tuple[float, float]) -> Link:
    before = _uplink(known)
    up, down = max(before.up, carried[0]), max(before.down, carried[1])
    if found is None:
        return replace(before, up=up, down=down)
    link = _uplink(found)
    below = [_uplink(child) for child in found.children]
    if link.up < fitted.NARROW * sum(child.up for child in below):
        up = link.up
    if link.down < fitted.NARROW * sum(child.down for child in below):
        down = link.down
    return Link(up, down, link.latency, before.burst)


def _carried(loads: Sequence[Load], machines: Sequence[int]) -> tuple[float, float]:
    """The most bytes per second that these machines sent out and received together; 0 where that was not measured."""
    most = [load.carried(machines) for load in loads if set(machines) <= set(load.machines)]
    return max((up for up, _ in most), default=0.0), max((down for _, down in most), default=0.0)


def _places(ranks: Below, place: dict[int, int]) -> Below:
    return frozenset(place[rank] for rank in ranks)


def _uplink(node: Node) -> Link:
    assert node.uplink is not None
    return node.uplink
