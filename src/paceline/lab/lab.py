"""Builds the machines, switches and links of a topology from network namespaces, veth pairs and bridges."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from paceline import topology as trees
from paceline.lab import shaping
from paceline.lab.guard import Guard
from paceline.lab.layout import INTERFACE, UNLIMITED, Layout, Machine
from paceline.lab.namespaces import check_entrance, delete, enter, ip, new_prefix, remove_abandoned, require
from paceline.lab.shaping import USUAL_QUEUE, Queue
from paceline.topology import Link, Node, Topology

if TYPE_CHECKING:
    from typing_extensions import Self

INSIDE = "PACELINE_LAB"
"""The variable that tells a process its place in a lab: the namespaces' prefix, a slash, the machine's number."""
MOST_NODES = 250
"""The most machines and switches of a lab."""

_MASTER_PORT = 29500


@dataclass(frozen=True)
class Traffic:
    """Bytes that crossed an uplink towards the parent (`up`) and from it (`down`), by the kernel's counters.

    They include headers; the headers of a long packet (GSO) are counted once.
    """

    name: str
    up: int
    down: int


class Lab:
    """The machines of `topology` on a network as it describes. Entering the context makes them, leaving it removes
    them.

    Links are limited to their rates in both directions. Links of ranks inside a machine are left unchanged, and so are
    a switch or machine at the root and links of infinite rate.

    file: the file of the topology; None hides the topology from the jobs. The machines' environment names this file,
    or, if the lab's links let larger bursts pass than the file says, a file with the corrected topology. prefix: the
    prefix of the namespaces of a lab that another process made; it is then neither made nor removed here.
    queue: what waits where a link is full.

    Raises ValueError for a topology that is not a cluster. Entering raises Unavailable, after removing everything it
    made, if root rights, a command or a feature of the kernel is missing. Nothing of the lab remains after it was left,
    or shortly after its process was killed; if its guard was killed too, the next lab removes it.
    """

    def __init__(
        self, topology: Topology, file: Path | None = None, prefix: str | None = None, queue: Queue = USUAL_QUEUE
    ) -> None:
        self.topology = replace(topology, root=shaping.held(topology.root, queue))
        self.queue = queue
        self.file = file
        self._written = None if file is None or self.topology == topology else _written(self.topology)
        self.prefix = prefix or new_prefix()
        self._made_elsewhere = prefix is not None
        self._secret = secrets.token_hex(32)
        self.guard: Guard | None = None
        placed = list(self.topology.machines())
        if len({node.name for node, _ in placed}) != len(placed):
            raise ValueError("a lab needs a different name for every machine")
        if sum(len(ranks) for _, ranks in placed) != topology.world:
            raise ValueError("a lab needs every rank in a machine")
        if sum(node.kind in ("switch", "machine") for node in topology.root.walk()) > MOST_NODES:
            raise ValueError(f"a lab has at most {MOST_NODES} machines and switches")
        self._layout = Layout(self.topology, self.prefix)
        self.machines = self._layout.machines
        self.uplinks = self._layout.uplinks
        # Sockets for IPv4 and IPv6 look up the second form, which must not be listed under the machine's own name.
        self._hosts = "\n".join(
            f"{machine.address} {machine.host}\n::ffff:{machine.address} {machine.host}.lab"
            for machine in self.machines
        )

    @classmethod
    def inside(cls, environ: Mapping[str, str]) -> tuple[Lab, int] | None:
        """Return the lab that a process with this environment runs in and the number of its machine; None outside of
        labs.

        Entering and leaving that lab changes nothing, because another process made it and removes it.
        """
        prefix, _, number = environ.get(INSIDE, "").partition("/")
        file = environ.get("PACELINE_TOPOLOGY")
        if not prefix or not file:
            return None
        return cls(trees.read(file), Path(file), prefix), int(number)

    def exec(self, machine: int) -> list[str]:
        """Return the words that run the rest of a command line on `machine`, as the same process."""
        where = self.machines[machine]
        return enter(where.namespace, where.host, self._hosts)

    def environment(self, machine: int) -> dict[str, str]:
        """Return the variables that let torchrun and `paceline run` start the ranks of one job on `machine`."""
        here = self.machines[machine]
        variables = {
            INSIDE: f"{self.prefix}/{machine}",
            "PACELINE_INTERFACE": INTERFACE,
            "PACELINE_SECRET": self._secret,
            "GLOO_SOCKET_IFNAME": INTERFACE,
            "PET_NNODES": str(len(self.machines)),
            "PET_NODE_RANK": str(machine),
            "PET_NPROC_PER_NODE": str(len(here.ranks)),
            "PET_MASTER_ADDR": self.machines[0].address,
            "PET_MASTER_PORT": str(_MASTER_PORT),
        }
        if self.file is None:
            return variables
        file = self.file.absolute() if self._written is None else f"/proc/{os.getpid()}/fd/{self._written.fileno()}"
        return {**variables, "PACELINE_TOPOLOGY": str(file)}

    def rate(self, source: int, target: int) -> float:
        """Return the bytes/s of the slowest link on the way from one machine to another."""
        return self._layout.rate(source, target)

    def traffic(self) -> list[Traffic]:
        """Return what has crossed each uplink since the lab was made, in the order of the topology."""
        counted = {}
        for switch in dict.fromkeys(uplink.switch for uplink in self.uplinks):
            for device in json.loads(ip("-n", switch, "-json", "-statistics", "link", "show")):
                counted[switch, device["ifname"]] = device["stats64"]
        stats = [counted[uplink.switch, uplink.port] for uplink in self.uplinks]
        return [
            Traffic(uplink.name, stat["rx"]["bytes"], stat["tx"]["bytes"])
            for uplink, stat in zip(self.uplinks, stats, strict=True)
        ]

    def change(self, name: str, link: Link) -> None:
        """Limit the uplink of a machine or switch to other finite rates from now on.

        Only links that are limited and not delayed can change; `topology` is unchanged. Raises ValueError for an
        unknown name.
        """
        for one in self._layout.uplinks_of(name):
            shaping.change(one.below, one.device, link.up, one.link, self.queue)
            shaping.change(one.switch, one.port, link.down, one.link, self.queue)

    def cut(self, name: str) -> None:
        """Cut the uplink of a machine or switch: nothing crosses it any more, and no process is notified.

        Raises ValueError for an unknown name.
        """
        for one in self._layout.uplinks_of(name):
            ip("-n", one.switch, "link", "set", one.port, "nomaster")

    def __enter__(self) -> Self:
        if self._made_elsewhere:
            return self
        require()
        remove_abandoned()
        self.guard = Guard(self.prefix)
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._made_elsewhere:
            self._remove()

    def _make(self) -> None:
        for name in (*self._layout.switches, *(machine.namespace for machine in self.machines)):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        for switch in self._layout.switches:
            ip("-n", switch, "link", "add", "switch", "type", "bridge")
            ip("-n", switch, "link", "set", "switch", "up")
        longest = shaping.longest_packet([one.link for one in self.uplinks], self.queue)
        for one in self.uplinks:
            pair = ("link", "add", one.port, "type", "veth", "peer", "name", one.device, "netns", one.below)
            ip("-n", one.switch, *pair)
            ip("-n", one.switch, "link", "set", one.port, "master", "switch", "up")
            above = ("master", "switch") if one.below in self._layout.switches else ()
            ip("-n", one.below, "link", "set", one.device, *above, "gso_max_size", str(longest), "up")
            shaping.shape(one.below, one.device, one.link.up, one.link, self.queue)
            shaping.shape(one.switch, one.port, one.link.down, one.link, self.queue)
        for machine in self.machines:
            ip("-n", machine.namespace, "link", "set", INTERFACE, "address", machine.mac)
            ip("-n", machine.namespace, "address", "add", f"{machine.address}/24", "dev", INTERFACE)
            self._introduce(machine)
        check_entrance(self.exec(0))

    # Neighbours are entered permanently, because all namespaces share the kernel's 1024 entries for those found by ARP.
    def _introduce(self, machine: Machine) -> None:
        others = [other for other in self.machines if other is not machine]
        commands = [f"neigh add {one.address} lladdr {one.mac} dev {INTERFACE} nud permanent\n" for one in others]
        ip("-n", machine.namespace, "-batch", "-", given="".join(commands))

    def _remove(self) -> None:
        try:
            delete([*self._layout.switches, *(machine.namespace for machine in self.machines)])
        finally:
            if self.guard is not None:
                self.guard.close()


def _written(topology: Topology) -> IO[str]:
    """Return a file in memory with this topology; it disappears with the lab, however that ends."""
    file = os.fdopen(os.memfd_create("topology"), "w", encoding="utf-8")
    file.write(trees.dump(topology))
    file.flush()
    return file


def switched(ranks: Sequence[int], link: Link = UNLIMITED) -> Topology:
    """Return a topology of machines with these numbers of ranks, all on one switch, with equal links."""
    machines = [
        Node(
            "machine", f"machine-{number}", link, tuple(Node("rank", f"rank-{local}", UNLIMITED) for local in range(n))
        )
        for number, n in enumerate(ranks)
    ]
    return Topology(f"{len(machines)} machines", Node("switch", "switch", None, tuple(machines)))
