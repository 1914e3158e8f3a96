"""The network on which `paceline bench data` trains: devices and their host, with links as a PCIe bus has them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.lab.lab import Lab
from paceline.topology import Link, Node, Topology, dump
from paceline.topology.defaults import LOCAL

HOST_LINK = 250e6 / 8
"""Bytes per second from the host to its devices. On the paper's server the way of a batch takes about a quarter of a
step (observation 2, 4 devices); here a seventh of the master's step of ResNet-50, and a fifth of MobileNet v2's. With
half of this rate it would take twice as long."""
DEVICE_LINK = 8 * HOST_LINK
"""Bytes per second to and from a device: they are 7 to 10 times as fast between devices as from the host (the paper's
observation 3)."""


def network(devices: int) -> Topology:
    """Return machines of one rank each on a switch: so many devices, and then their host."""
    rates = [(f"device-{number}", DEVICE_LINK) for number in range(devices)] + [("host", HOST_LINK)]
    machines = [Node("machine", name, Link(rate, rate), (Node("rank", "rank 0", LOCAL),)) for name, rate in rates]
    return Topology(f"{devices} devices", Node("switch", f"{devices} devices", None, tuple(machines)))


@contextmanager
def lab(devices: int) -> Iterator[Lab]:
    """Yield a lab with this network, whose jobs know it."""
    made = network(devices)
    with tempfile.NamedTemporaryFile("w", prefix="paceline-devices-", suffix=".yaml") as file:
        file.write(dump(made))
        file.flush()
        yield Lab(made, Path(file.name))
