"""The links of a network as a user names them, and the network with other links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paceline.topology import Link, Node, Topology
from paceline.topology.tree import without
from paceline.topology.units import parse_speed, parse_time, show_speed, show_time

UPLINK = "uplink"
"""The name that stands for the links of all machines."""
INNER = "inner"
"""The name that stands for the links of all ranks inside their machines."""
HOST = "host"
"""The name that stands for each rank's link between the device with its gradients and its machine's memory."""
EXAMPLE = "uplink=10Gbit/s"
_NAMED = 12
"""Links that an error names at most."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The links of one name as a user asks for them.

    speeds: bytes per second each way; more than one for a range. latency: seconds, None for what it is.
    """

    name: str
    speeds: tuple[float, ...]
    latency: float | None = None


def asked(text: str) -> Asked:
    """Return what NAME=SPEED, NAME=LOW:HIGH or NAME=SPEED,LATENCY asks for. Raises ValueError."""
    name, equals, rest = text.rpartition("=")
    if not equals:
        raise ValueError(f"--link is {text!r:.60}; write it like {EXAMPLE}")
    speeds, comma, latency = rest.partition(",")
    return Asked(name, tuple(_speeds(speeds)), parse_time(latency) if comma else None)


def relinked(topology: Topology, links: Sequence[str]) -> Topology:
    """Return the topology with the links that a user asks for, one speed each. Raises ValueError."""
    for link in map(asked, links):
        if len(link.speeds) > 1:
            raise ValueError(f"--link {link.name:.60} has a range of speeds; write one, like {EXAMPLE}")
        topology = with_speed(topology, link.name, link.speeds[0], link.latency)
    return topology


def with_speed(topology: Topology, name: str, speed: float, latency: float | None = None) -> Topology:
    """Return the topology with links of another speed, each way, in bytes per second, and perhaps of another latency.

    name: of the machine or switch below the link, `uplink` for those of all machines, or `inner` for those of all ranks
    inside their machines. Raises ValueError, which names those that there are.
    """
    found = [node for node in topology.root.walk() if node.uplink is not None]
    named = [node for node in found if node.kind in ("machine", "switch")]
    if name == INNER:
        chosen = {id(node) for node in found if node.kind in ("rank", "socket")}
    else:
        chosen = {id(node) for node in named if node.name == name or (name == UPLINK and node.kind == "machine")}
    if not chosen:
        names = ", ".join([UPLINK, INNER, *(node.name for node in named)][:_NAMED])
        raise ValueError(f"there is no link called {name!r:.60}; choose one of {names}")

    def told(node: Node) -> Node:
        if id(node) not in chosen or node.uplink is None:
            return node
        link, assumed = replace(node.uplink, up=speed, down=speed), without("speed", node.assumed)
        if latency is not None:
            link, assumed = replace(link, latency=latency), without("latency", assumed)
        return replace(node, uplink=link, assumed=assumed)

    what = f"{name} {show_speed(speed)}" if latency is None else f"{name} {show_speed(speed)} {show_time(latency)}"
    return replace(changed(topology, told), name=f"{topology.name}, {what}")


def faster(topology: Topology, factor: float) -> Topology:
    """Return the topology with all links between machines faster by a factor."""

    def quick(node: Node) -> Node:
        if node.kind not in ("machine", "switch") or node.uplink is None:
            return node
        link = node.uplink
        return replace(node, uplink=replace(link, up=factor * link.up, down=factor * link.down))

    return changed(topology, quick)


def changed(topology: Topology, change: Callable[[Node], Node]) -> Topology:
    """Return the topology with each node changed; the change must leave its children as they are."""

    def walk(node: Node) -> Node:
        new = change(node)
        return replace(new, children=tuple(map(walk, node.children))) if node.children else new

    return replace(topology, root=walk(topology.root))


def inside(topology: Topology, rate: Callable[[int], float], unsaid: bool = False) -> Topology:
    """Return the topology with other links of ranks inside their machines.

    rate: bytes per second each way, by the ranks of a machine. unsaid: leave those of which somebody has said how fast
    they are.
    """

    def within(node: Node, speed: float) -> Node:
        if node.kind != "rank" or node.uplink is None:
            return replace(node, children=tuple(within(child, speed) for child in node.children))
        if unsaid and "speed" not in node.assumed:
            return node
        return replace(node, uplink=replace(node.uplink, up=speed, down=speed), assumed=())

    def walk(node: Node) -> Node:
        if node.kind == "machine":
            return within(node, rate(node.size))
        return replace(node, children=tuple(map(walk, node.children)))

    return replace(topology, root=walk(topology.root))


def slowest(links: Sequence[Link]) -> Link | None:
    """Return the slowest of these links; None if there are none."""
    return min(links, key=lambda link: min(link.up, link.down), default=None)


def _speeds(text: str) -> list[float]:
    first, colon, last = text.partition(":")
    low, high = parse_speed(first), parse_speed(last if colon else first)
    if high < low:
        raise ValueError(f"{text!r:.60} falls; write the lower speed first")
    return doublings(low, high)


def doublings(low: float, high: float) -> list[float]:
    """Return low, twice as much, and so on, up to the last one that is not above `high`; then `high` itself."""
    found = [low]
    while 2 * found[-1] <= high:
        found.append(2 * found[-1])
    return found if found[-1] == high else [*found, high]
