"""Draw a topology in the terminal."""

from __future__ import annotations

from itertools import groupby

from rich.text import Text
from rich.tree import Tree

from paceline.topology import labels
from paceline.topology.fold import Part, cut, fold
from paceline.topology.tree import Link, Topology

MOST_LINES = 48
"""Machines and switches up to which a topology is drawn whole; a larger one is folded to about as many lines."""


def tree(topology: Topology) -> Tree:
    """Return a tree of names, ranks, speeds in both directions and latencies, for Rich to print."""
    root = cut(fold(topology, MOST_LINES), MOST_LINES)
    usual = labels.usual_local(topology)
    head = Text(topology.name, "bold")
    if root.name != topology.name or root.kind == "machine":
        head.append(f" ({labels.title(root)})", "not bold")
    head.append(f"  {labels.summary(topology)}", "not bold cyan")
    drawn = Tree(head, guide_style="dim")
    _below(root, drawn, usual)
    return drawn


def _below(part: Part, drawn: Tree, usual: Link) -> None:
    if part.local is not None and part.local == usual:
        return  # the line of the part itself has the ranks' numbers
    if part.ranks_alone():
        for link, alike in groupby(part.children, key=lambda child: child.uplink):
            ranks = list(alike)
            numbers = range(ranks[0].ranks.start, ranks[-1].ranks.stop)
            label = f"  {labels.path(link)}{' each' if len(numbers) > 1 else ''}" if link is not None else ""
            drawn.add(Text(labels.ranks(numbers), "cyan").append(label, "green"))
        return
    for child in part.children:
        _below(child, drawn.add(_line(child)), usual)


def _line(part: Part) -> Text:
    line = Text(labels.title(part), "bold")
    if part.kind != "rank":
        line.append(f"  {labels.ranks(part.ranks)}", "not bold cyan")
        if len(part.nodes) > 1 and part.alike:
            line.append(f" ({len(part.ranks) // len(part.nodes)} each)", "not bold cyan")
    if label := labels.link(part):
        line.append(f"  {label}", "not bold green")
    return line
