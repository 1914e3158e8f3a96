"""The namespaces, interfaces and addresses that a topology becomes, before anything of it is made."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from paceline.topology import Link, Node, Topology

INTERFACE = "eth0"
"""A machine's only network interface besides loopback."""
UNLIMITED = Link(math.inf, math.inf)
"""A link whose rate is not limited."""


@dataclass(frozen=True)
class Machine:
    """A machine of a lab.

    host: its host name. namespace: its network namespace. address: its IPv4 address on INTERFACE. ranks: the ranks of
    the topology that belong to it.
    """

    name: str
    host: str
    namespace: str
    address: str
    ranks: range

    @property
    def mac(self) -> str:
        """The hardware address of INTERFACE."""
        return "02:00:" + ":".join(f"{int(part):02x}" for part in self.address.split("."))


@dataclass(frozen=True)
class Uplink:
    """The link between the machine or switch `name` and its parent switch.

    switch, port: the parent's namespace and the device there. below, device: the namespace of the machine or switch and
    the device there.
    """

    name: str
    link: Link
    switch: str
    port: str
    below: str
    device: str


class Layout:
    """The namespaces and links that the machines, switches and links of `topology` become.

    prefix: that of the namespaces. switches: the namespaces of the switches. uplinks: in the order of the topology.
    """

    def __init__(self, topology: Topology, prefix: str) -> None:
        self._prefix = prefix
        self.switches: list[str] = []
        self.uplinks: tuple[Uplink, ...] = ()
        self.machines: tuple[Machine, ...] = ()
        for number, (node, ranks) in enumerate(topology.machines()):
            namespace, address = f"{prefix}-{number}", f"10.77.0.{number + 1}"
            self.machines += (Machine(node.name, self._host(node.name), namespace, address, ranks),)
        self._walk(topology.root, None)

    def rate(self, source: int, target: int) -> float:
        """Return the bytes/s of the slowest link on the way from one machine to another."""
        up, down = (self._way(self.machines[number]) for number in (source, target))
        rates = [one.link.up for one in up if one not in down] + [one.link.down for one in down if one not in up]
        return min(rates, default=math.inf)

    def uplinks_of(self, name: str) -> list[Uplink]:
        """Return the uplinks of the machine or switch of this name. Raises ValueError if there are none."""
        found = [one for one in self.uplinks if one.name == name]
        if not found:
            raise ValueError(f"the lab has no uplink of {name}; it has {', '.join(one.name for one in self.uplinks)}")
        return found

    def _host(self, name: str) -> str:
        host = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")[:60] or "machine"
        taken = {machine.host for machine in self.machines}
        return host if host not in taken else f"{host[:55]}-{len(taken)}"

    def _way(self, machine: Machine) -> list[Uplink]:
        """Return the links from a machine to the root."""
        way = []
        below = machine.namespace
        while above := [one for one in self.uplinks if one.below == below]:
            way += above
            below = above[0].switch
        return way

    def _walk(self, node: Node, parent: str | None) -> None:
        if node.kind == "machine":
            namespace = next(m.namespace for m in self.machines if m.name == node.name)
            if parent is None:  # a single machine gets a network too
                parent = self._new_switch()
            self._connect(node, parent, namespace, INTERFACE)
            return
        switch = self._new_switch()
        if parent is not None:
            self._connect(node, parent, switch, "uplink")
        for child in node.children:
            self._walk(child, switch)

    def _new_switch(self) -> str:
        self.switches.append(f"{self._prefix}-switch{len(self.switches)}")
        return self.switches[-1]

    def _connect(self, node: Node, parent: str, namespace: str, device: str) -> None:
        port = f"port{len(self.uplinks)}"
        self.uplinks += (Uplink(node.name, node.uplink or UNLIMITED, parent, port, namespace, device),)
