"""Build the topology of a group of ranks from what each reports: its machine, and the speed of its machine's link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median_low

from paceline.topology.defaults import LOCAL, NETWORK_LATENCY, UPLINK
from paceline.topology.nest import free_name, nest, numbered
from paceline.topology.tree import Link, Node, Topology

NAME = "network"
"""The name of a discovered topology, and of the switch that joins its machines."""
_SHARED_MEMORY = 8
"""A factor: memory inside a machine is assumed to be this many times faster than the fastest link between machines."""


@dataclass(frozen=True, slots=True)
class RankFacts:
    """The facts that one rank reports about itself.

    machine: equal for ranks that share memory. host: the machine's name for people. speed: bytes per second of the
    interface by which other machines reach it; None where the kernel does not know.
    """

    machine: str
    host: str
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A topology, and the ranks of a group in it: `ranks[i]` is the group's rank at place i of the topology.

    Ranks and places differ where the ranks of a machine are not numbered consecutively.
    """

    topology: Topology
    ranks: tuple[int, ...]


def discover(facts: Sequence[RankFacts]) -> Placement:
    """Return the machines of a group below one switch, or its single machine; `facts[r]` describes the group's rank r.

    A machine whose speed is not known gets the median of the others', or the default if none is known. Interfaces
    reveal neither the switches in between nor the speed of memory, which is assumed to be faster than any of them.
    """
    shared = by_machine(facts)
    speeds = [max((facts[rank].speed or 0.0 for rank in ranks), default=0.0) for ranks in shared]
    known = [speed for speed in speeds if speed]
    usual = median_low(known) if known else UPLINK
    uplinks = [Link(speed or usual, speed or usual, NETWORK_LATENCY) for speed in speeds]
    fastest = _SHARED_MEMORY * max(link.up for link in uplinks)
    return place(facts, uplinks, [Link(fastest, fastest, LOCAL.latency)] * len(shared))


def by_machine(facts: Sequence[RankFacts]) -> list[list[int]]:
    """Return the ranks of each machine; machines are in the order of their first ranks."""
    machines: dict[str, list[int]] = {}
    for rank, fact in enumerate(facts):
        machines.setdefault(fact.machine, []).append(rank)
    return list(machines.values())


def place(
    facts: Sequence[RankFacts],
    uplinks: Sequence[Link],
    locals: Sequence[Link],
    switches: Sequence[tuple[frozenset[int], Link]] = (),
) -> Placement:
    """Return the placement of the ranks in machines with these links.

    uplinks, locals: the link of each machine, and of each of its ranks, in the order of `by_machine`. switches: the
    numbers of the machines below each switch, and its link, the smallest first; any two of these sets are nested or
    disjoint.
    """
    shared = by_machine(facts)
    taken: set[str] = set()
    hosts = [free_name(facts[ranks[0]].host, taken) for ranks in shared]
    name = free_name(NAME, taken)
    machines = [
        Node("machine", host, uplink if len(shared) > 1 else None, (Node("rank", "", local),) * len(ranks))
        for host, uplink, local, ranks in zip(hosts, uplinks, locals, shared, strict=True)
    ]
    if len(machines) == 1:
        return Placement(Topology(NAME, numbered(machines[0], count())), tuple(shared[0]))
    parts = {frozenset([number]): machine for number, machine in enumerate(machines)}
    named = [(below, free_name(f"switch-{number}", taken), link) for number, (below, link) in enumerate(switches, 1)]
    root = Node("switch", name, None, nest(parts, named))
    order = [hosts.index(node.name) for node in root.walk() if node.kind == "machine"]
    return Placement(
        Topology(NAME, numbered(root, count())), tuple(rank for number in order for rank in shared[number])
    )
