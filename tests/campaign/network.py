"""Machines of a lab, and what befalls the network between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from jobs import RAW
from on_lab import warm_on
from warm_python import WarmPython

from paceline.lab.lab import Lab, switched
from paceline.lab.layout import INTERFACE, Machine, Uplink
from paceline.lab.namespaces import ip
from paceline.topology import Link

MACHINES = 4
RATE = 60e6
"""Bytes/s of each machine's link."""
SLOW = RATE / 100
SHORT = 600
"""Bytes of the longest packets that go through where long ones get lost."""
USUAL_MTU = 1500
NOWHERE = "02:00:de:ad:00:01"


class Network:
    """A lab of machines with a process on each that forks ranks."""

    def __init__(self, lab: Lab, warm: list[WarmPython]) -> None:
        self.lab, self.warm = lab, warm

    def do(self, fault: str, machine: int) -> None:
        """Do this to the link of a machine, until it is undone."""
        name, link = self.lab.machines[machine].name, self._uplink(machine)
        at_switch = partial(ip, "-n", link.switch, "link", "set", link.port)
        match fault:
            case "cut" | "cut for a while":
                self.lab.cut(name)
            case "link down":
                at_switch("down")
            case "packets too long":
                at_switch("mtu", str(SHORT))
            case "one way":
                self._mislead(machine, NOWHERE)
            case "slow link":
                self.lab.change(name, Link(SLOW, SLOW))

    def undo(self, fault: str, machine: int) -> None:
        """Let the link be as it was."""
        here, link = self.lab.machines[machine], self._uplink(machine)
        at_switch = partial(ip, "-n", link.switch, "link", "set", link.port)
        match fault:
            case "cut" | "cut for a while":
                at_switch("master", "switch")
            case "link down":
                at_switch("up")
            case "packets too long":
                at_switch("mtu", str(USUAL_MTU))
            case "one way":
                self._mislead(machine, here.mac)
            case "slow link":
                self.lab.change(here.name, Link(RATE, RATE))

    def _uplink(self, machine: int) -> Uplink:
        name = self.lab.machines[machine].name
        return next(one for one in self.lab.uplinks if one.name == name)

    def _mislead(self, machine: int, address: str) -> None:
        """Let all others send what is for this machine to another hardware address."""
        here = self.lab.machines[machine]
        for other in self.lab.machines:
            if other is not here:
                _neighbour(other, here.address, address)


def _neighbour(machine: Machine, address: str, hardware: str) -> None:
    place = ("to", address, "lladdr", hardware, "dev", INTERFACE, "nud", "permanent")
    ip("-n", machine.namespace, "neigh", "replace", *place)


@contextmanager
def network() -> Iterator[Network]:
    """Make one. Raises Unavailable where that is not possible."""
    link = Link(RATE, RATE)
    with Lab(switched([1] * MACHINES, link)) as lab, warm_on(lab, RAW) as warm:
        yield Network(lab, warm)
