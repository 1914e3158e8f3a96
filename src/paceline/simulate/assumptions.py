"""Lines on what is assumed of a network's links, as nobody has said it, each with the option that says it."""

from __future__ import annotations

from collections.abc import Iterator

from paceline.simulate.links import INNER, UPLINK
from paceline.topology import Link, Topology
from paceline.topology.tree import Guess
from paceline.topology.units import show_speed, show_time


def of_links(topology: Topology) -> Iterator[str]:
    """Yield a line for each kind of link of which something is assumed, such as "10 Gbit/s and 1 us for …"."""
    network = [node for node in topology.root.walk() if node.uplink is not None and node.assumed]
    for kinds, whose, option in (
        (("switch",), "each switch's link", "NAME"),
        (("machine",), "each machine's link", UPLINK),
        (("socket", "rank"), "each rank's link inside its machine", INNER),
    ):
        several = _joins(topology, kinds)
        told = {_said(node.uplink, node.assumed): node for node in network if node.kind in kinds and node.uplink}
        for what, node in told.items():
            if several:
                example = "SPEED" if "latency" not in node.assumed else "SPEED,LATENCY"
                yield f"{what} for {whose} (--link {option}={example})"


def _said(link: Link, assumed: tuple[Guess, ...]) -> str:
    speed = show_speed(min(link.up, link.down))
    words = {"speed": speed, "latency": f"{show_time(link.latency)} a message"}
    return " and ".join(words[each] for each in words if each in assumed)


def _joins(topology: Topology, kinds: tuple[str, ...]) -> bool:
    """Return whether such links lie between ranks at all: inside machines only if one has several ranks."""
    if "rank" in kinds:
        return any(len(ranks) > 1 for _, ranks in topology.machines())
    return sum(len(ranks) > 0 for _, ranks in topology.machines()) > 1
