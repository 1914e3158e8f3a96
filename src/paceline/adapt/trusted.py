"""Leaves links as they were taken for where a measurement that found them slower may only have found busy cores."""

from __future__ import annotations

from dataclasses import replace

from paceline.calibration.adapt import BURST, MOST_WAITED
from paceline.topology import Link
from paceline.topology.discover import Placement
from paceline.topology.measured import Measured
from paceline.topology.relink import joined
from paceline.topology.tree import Node, Topology


def trusted(known: Placement, found: Placement, measured: Measured) -> Placement:
    """Return `found` with no machine's link slower than in `known` if its measurement says little.

    Where a link limits a stream, bytes come evenly, however long the ranks at its ends wait for their cores. Where the
    cores limit it, bytes come in bursts, and the link may carry any more. Bytes also come in bursts where packets are
    lost, but then no rank waits for a core. The fastest stream to or from a machine counts, so one other machine with
    a free core is enough. Nothing is left in doubt where `measured` tells neither.
    """
    if not (measured.waited.size and measured.bursts.size):
        return found
    busy = (measured.waited > MOST_WAITED) & (measured.bursts > BURST)
    if not busy.any():
        return found
    before, now = joined(known), joined(found)
    machines = sorted((ranks for ranks, node in now.items() if node.kind == "machine"), key=min)
    doubted: dict[str, Link] = {}
    for number, ranks in enumerate(machines):
        others = [one for one in range(len(machines)) if one != number]
        link, taken = now[ranks].uplink, before[ranks].uplink if ranks in before else None
        if (busy[number] or busy[others].all()) and link is not None and taken is not None:
            doubted[now[ranks].name] = replace(link, up=max(link.up, taken.up), down=max(link.down, taken.down))

    def settled(node: Node) -> Node:
        if node.kind == "machine" and node.name in doubted:
            return replace(node, uplink=doubted[node.name])
        return replace(node, children=tuple(map(settled, node.children))) if node.kind == "switch" else node

    return replace(found, topology=Topology(found.topology.name, settled(found.topology.root)))
