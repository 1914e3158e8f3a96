"""Read Slurm's topology.conf (its plugin topology/tree) as a topology.

    SwitchName=leaf1 Nodes=tux[0-3]
    SwitchName=leaf2 Nodes=tux[4-7]
    SwitchName=spine Switches=leaf[1-2]

It names switches and hosts, but neither ranks nor speeds: its LinkSpeed has no unit, and Slurm itself does not use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paceline.formats.yaml_lines import DEEPEST
from paceline.topology.defaults import LOCAL, MOST_RANKS, NETWORK_LATENCY
from paceline.topology.errors import TopologyError
from paceline.topology.hostlist import expand
from paceline.topology.tree import NOTHING_SAID, Guess, Link, Node, Topology

_FIELD = re.compile(r"(\w+)=(\S+)\s*")
_KNOWN = ("switchname", "nodes", "switches", "linkspeed")


@dataclass(frozen=True, slots=True)
class _Switch:
    line: int
    nodes: list[str]
    switches: list[str]


def looks_like_slurm(text: str) -> bool:
    """Return whether the first line that is neither empty nor a comment is one of topology.conf."""
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    return re.match(r"\s*(switchname|blockname)\s*=", first, re.IGNORECASE) is not None


def parse(
    text: str,
    source: str,
    ranks: int | Mapping[str, int],
    uplink: float,
    switch_uplink: float | None = None,
    local: Link | None = None,
) -> Topology:
    """Return the topology of the hosts in topology.conf, or of those that `ranks` names.

    text: the file's content. source: its name in errors. ranks: the number of ranks on each host; hosts that a mapping
    lacks are left out, and so are switches without a host. uplink: bytes per second of a host's link, each way.
    switch_uplink: the same for a switch's link; None makes it as fast as all hosts below it together. local: the link
    of each rank in its machine; None for the usual one.
    Raises TopologyError.
    """
    return _Reader(source, text, ranks, uplink, switch_uplink, local).topology()


class _Reader:
    def __init__(
        self,
        source: str,
        text: str,
        ranks: int | Mapping[str, int],
        uplink: float,
        switch_uplink: float | None,
        local: Link | None,
    ) -> None:
        self._source = source
        self._uplink, self._switch_uplink, self._local = uplink, switch_uplink, local
        self._switches: dict[str, _Switch] = {}
        for line, statement in _statements(text):
            self._add(line, statement)
        hosts = [host for switch in self._switches.values() for host in switch.nodes]
        self._ranks = dict.fromkeys(hosts, ranks) if isinstance(ranks, int) else ranks
        self._reached: set[str] = set()
        self._count = 0

    def topology(self) -> Topology:
        parents = self._parents()
        tops = [name for name in self._switches if name not in parents]
        if not self._switches:
            raise self._error(1, "there is no switch; write SwitchName=leaf Nodes=tux[0-3]")
        if not tops:
            raise self._error(1, "every switch is below another one, and so below itself; one of them must be the top")
        if len(tops) > 1:
            line = self._switches[tops[1]].line
            raise self._error(
                line,
                f"switches {tops[0]} and {tops[1]} are not joined; add a line SwitchName=top Switches={','.join(tops)}",
            )
        if sum(self._ranks.get(host, 0) for switch in self._switches.values() for host in switch.nodes) > MOST_RANKS:
            raise self._error(1, f"more than {MOST_RANKS} ranks")
        root, _ = self._switch(tops[0], 1)
        if lost := next((name for name in self._switches if name not in self._reached), None):
            line = self._switches[lost].line
            raise self._error(line, f"switch {lost} is below itself; a network is a tree here")
        if root is None:
            raise self._error(1, "none of the hosts has ranks; give ranks for hosts that are in the file")
        return Topology(tops[0], Node("switch", root.name, None, root.children))

    def _switch(self, name: str, depth: int) -> tuple[Node | None, float]:
        """The switch, or None without a rank below it, and the bytes per second of all its hosts together."""
        switch = self._switches[name]
        self._reached.add(name)
        if depth > DEEPEST:
            raise self._error(switch.line, f"more than {DEEPEST} levels of switches; a network has fewer")
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
            for child in (*switch.switches, *switch.nodes):
                if child in switch.switches and child not in self._switches:
                    raise self._error(switch.line, f"there is no SwitchName={child}; add its line")
                if child in parents:
                    where = f"{parents[child]} and {name}"
                    raise self._error(switch.line, f"{child} is below {where}; a tree has one way up, keep one of them")
                parents[child] = name
        return parents

    def _add(self, line: int, statement: str) -> None:
        fields = {key.lower(): value for key, value in _FIELD.findall(statement)}
        if "".join(_FIELD.split(statement)[::3]).strip():
            raise self._error(line, f"{statement!r:.80} is not KEY=VALUE; write SwitchName=leaf Nodes=tux[0-3]")
        if unknown := [key for key in fields if key not in _KNOWN]:
            blocks = "; the plugin topology/block describes no tree" if unknown[0].startswith("block") else ""
            raise self._error(
                line, f"{unknown[0]} is not known; known are SwitchName, Nodes, Switches, LinkSpeed{blocks}"
            )
        if "switchname" not in fields or ("nodes" in fields) is ("switches" in fields):
            raise self._error(
                line, "a line has SwitchName and either Nodes or Switches, as in SwitchName=a Nodes=tux[0-3]"
            )
        try:
            nodes = expand(fields.get("nodes", ""), MOST_RANKS)
            switches = expand(fields.get("switches", ""), MOST_RANKS)
        except ValueError as error:
            raise self._error(line, str(error)) from None
        name = fields["switchname"]
        if name in self._switches:
            raise self._error(line, f"switch {name} is on line {self._switches[name].line} already; keep one of them")
        self._switches[name] = _Switch(line, nodes, switches)

    def _error(self, line: int, reason: str) -> TopologyError:
        return TopologyError(f"{self._source}:{line}: {reason}")


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with its first line's number, without comments; a backslash at the end of a line continues it."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if begun else number
        line = line.partition("#")[0].rstrip()
        if line.endswith("\\"):
            begun += line[:-1]
            continue
        if (begun + line).strip():
            yield first, (begun + line).strip()
        begun = ""
    if begun.strip():
        yield first, begun.strip()
