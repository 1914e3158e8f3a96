"""A tree of switches and hosts as Slurm describes it, whose hosts get ranks, and whose links get speeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.formats.yaml_lines import DEEPEST
from paceline.topology.defaults import LOCAL, MOST_RANKS, NETWORK_LATENCY
from paceline.topology.errors import TopologyError
from paceline.topology.tree import NOTHING_SAID, Guess, Link, Node, Topology


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch with the hosts or the switches below it. where: its place, "file:line"."""

    where: str
    nodes: list[str]
    switches: list[str]


class SwitchTree:
    """Makes a topology of switches; see `paceline.topology.slurm.parse`.

    begin: where the description begins, for errors. example: what a switch may look like there.
    """

    def __init__(
        self,
        switches: Mapping[str, Switch],
        begin: str,
        example: str,
        ranks: int | Mapping[str, int],
        uplink: float,
        switch_uplink: float | None = None,
        local: Link | None = None,
    ) -> None:
        self._switches, self._begin, self._example = switches, begin, example
        self._uplink, self._switch_uplink, self._local = uplink, switch_uplink, local
        hosts = [host for switch in switches.values() for host in switch.nodes]
        self._ranks = dict.fromkeys(hosts, ranks) if isinstance(ranks, int) else ranks
        self._reached: set[str] = set()
        self._count = 0

    def topology(self) -> Topology:
        """Return the topology. Raises TopologyError, with the place and the reason."""
        parents = self._parents()
        tops = [name for name in self._switches if name not in parents]
        if not self._switches:
            raise self._error(self._begin, f"there is no switch; write {self._example}")
        if not tops:
            reason = "every switch is below another one, and so below itself; one of them must be the top"
            raise self._error(self._begin, reason)
        if len(tops) > 1:
            where = self._switches[tops[1]].where
            raise self._error(where, f"switches {tops[0]} and {tops[1]} are not joined; add a switch above them")
        if sum(self._ranks.get(host, 0) for switch in self._switches.values() for host in switch.nodes) > MOST_RANKS:
            raise self._error(self._begin, f"more than {MOST_RANKS} ranks")
        root, _ = self._switch(tops[0], 1)
        if lost := next((name for name in self._switches if name not in self._reached), None):
            where = self._switches[lost].where
            raise self._error(where, f"switch {lost} is below itself; a network is a tree here")
        if root is None:
            raise self._error(self._begin, "none of the hosts has ranks; give ranks for hosts that are in the file")
        return Topology(tops[0], Node("switch", root.name, None, root.children))

    def _switch(self, name: str, depth: int) -> tuple[Node | None, float]:
        """The switch, or None without a rank below it, and the bytes per second of all its hosts together."""
        switch = self._switches[name]
        self._reached.add(name)
        if depth > DEEPEST:
            raise self._error(switch.where, f"more than {DEEPEST} levels of switches; a network has fewer")
        children: list[Node] = []
        speed = 0.0
        for child in switch.switches:
            node, below = self._switch(child, depth + 1)
            children += [node] if node is not None else []
            speed += below
        for host in switch.nodes:
            if count := self._ranks.get(host, 0):
                link = Link(self._uplink, self._uplink, NETWORK_LATENCY)
                ranks = tuple(self._rank() for _ in range(count))
                children.append(Node("machine", host, link, ranks, assumed=("latency",)))
                speed += self._uplink
        if not children:
            return None, 0.0
        own = speed if self._switch_uplink is None else self._switch_uplink
        assumed: tuple[Guess, ...] = NOTHING_SAID if self._switch_uplink is None else ("latency",)
        return Node("switch", name, Link(own, own, NETWORK_LATENCY), tuple(children), assumed=assumed), speed

    def _rank(self) -> Node:
        self._count += 1
        name = f"rank {self._count - 1}"
        return Node("rank", name, self._local) if self._local else Node("rank", name, LOCAL, assumed=NOTHING_SAID)

    def _parents(self) -> dict[str, str]:
        """The switch above each switch and host; each can have only one."""
        parents: dict[str, str] = {}
        for name, switch in self._switches.items():
            if lost := next((child for child in switch.switches if child not in self._switches), None):
                raise self._error(switch.where, f"there is no switch {lost}; add it")
            for child in (*switch.switches, *switch.nodes):
                if child in parents:
                    both = f"{parents[child]} and {name}"
                    raise self._error(switch.where, f"{child} is below {both}; a tree has one way up, keep one of them")
                parents[child] = name
        return parents

    def _error(self, where: str, reason: str) -> TopologyError:
        return TopologyError(f"{where}: {reason}")
