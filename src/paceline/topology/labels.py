"""The texts that name links, ranks and parts of a topology for people."""

from __future__ import annotations

from collections import Counter

from paceline.topology.fold import Part
from paceline.topology.tree import Link, Topology
from paceline.topology.units import show_speed, show_time


def speeds(link: Link) -> str:
    """Return "1 Gbit/s", or the speeds of both directions where they differ."""
    if link.up == link.down:
        return show_speed(link.up)
    return f"{show_speed(link.up)} up / {show_speed(link.down)} down"


def ranks(numbers: range) -> str:
    """Return "rank 3" or "ranks 3–5"."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    return f"ranks {numbers[0]}–{numbers[-1]}"


def title(part: Part) -> str:
    """Return a text with the kind, the number and the names of a part's nodes."""
    if len(part.nodes) == 1:
        return f"{part.kind} {part.name}" if part.kind != "rank" else ranks(part.ranks)
    kinds = {node.kind for node in part.nodes}
    many = {"switch": "switches"}.get(part.kind, f"{part.kind}s") if len(kinds) == 1 else "switches and machines"
    return f"{len(part.nodes)} {'' if part.alike else 'more '}{many} {part.name}"


def link(part: Part) -> str:
    """Return the speed and latency of a part's link to its parent; "" for the root.

    Where the part stands for several nodes, the text says that each has this link, or that they differ.
    """
    if part.uplink is None:
        return "" if part.alike else "links of various speeds"
    return f"{path(part.uplink)}{' each' if len(part.nodes) > 1 else ''}"


def usual_local(topology: Topology) -> Link:
    """Return the link that most ranks have inside their machine."""
    links = Counter(node.uplink for node in topology.root.walk() if node.kind == "rank" and node.uplink is not None)
    return links.most_common(1)[0][0]


def summary(topology: Topology) -> str:
    """Return a text with the number of ranks and the link that most of them have."""
    world = f"{topology.world} {'rank' if topology.world == 1 else 'ranks'}"
    return f"{world}, each with {path(usual_local(topology))} inside its machine"


def path(link: Link) -> str:
    """Return the speed and latency of a link as a text."""
    return f"{speeds(link)}, {show_time(link.latency)}"
