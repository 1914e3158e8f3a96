"""Describe what is slow in sentences: machines' links beside the others', paths beside their links, and switches that
carry less than what is below them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from paceline.calibration.topology import (
    BUSY,
    LATE,
    LATE_SECONDS,
    SLOW_LINK,
    SLOW_MACHINE,
)
from paceline.topology.discover import Placement
from paceline.topology.measured import Matrix, Measured
from paceline.topology.tree import Node, Topology
from paceline.topology.units import show_speed, show_time

MOST_PATHS = 8
"""Slow paths that are named one by one."""
MOST_NAMES = 8
"""Machines below a switch that are named one by one."""


def findings(placement: Placement, measured: Measured) -> list[str]:
    """Return one sentence for each slow link, slow machine and slow path; none if nothing is slow."""
    placed = sorted(placement.topology.machines(), key=lambda one: min(placement.ranks[place] for place in one[1]))
    machines = [machine for machine, _ in placed]  # in the order of what was measured
    root = placement.topology.root
    if len(machines) == 1:
        return []
    return [
        *_busy(machines, measured),
        *_slow_links(machines),
        *_slow_machines(machines, measured),
        *_late(machines),
        *_narrow(root),
        *_slow_paths(root, machines, measured),
    ]


def binding(topology: Topology) -> list[str]:
    """Return the links that are slow for what they join; none where links are about equal.

    A text is such as "beta's uplink (125 Mbit/s, the others' median is 500 Mbit/s)".
    """
    nodes = [node for node in topology.root.walk() if node.uplink is not None]
    found = []
    machines = [node for node in nodes if node.kind == "machine"]
    for machine in machines if len(machines) > 1 else ():
        usual = median(_slower(other) for other in machines if other is not machine)
        if _slower(machine) < SLOW_LINK * usual:
            speeds = f"{show_speed(_slower(machine))}, the others' median is {show_speed(usual)}"
            found.append(f"{machine.name}'s uplink ({speeds})")
    for switch in [node for node in nodes if node.kind == "switch"]:
        below = sum(map(_slower, switch.children))
        if _slower(switch) < SLOW_LINK * below:
            speeds = f"{show_speed(_slower(switch))}, those below it have {show_speed(below)}"
            found.append(f"{switch.name}'s uplink, shared by {_listed(switch.children)} ({speeds})")
    return found


def _slower(node: Node) -> float:
    return min(_uplink(node)[:2])


def _narrow(root: Node) -> list[str]:
    found = []
    for switch in [node for node in root.walk() if node.kind == "switch" and node.uplink is not None]:
        ways = []
        for does, way in (("send", 0), ("receive", 1)):
            speed, below = _uplink(switch)[way], sum(_uplink(child)[way] for child in switch.children)
            if speed < SLOW_LINK * below:
                ways.append(f"{does} {show_speed(speed)} together, though their links carry {show_speed(below)}")
        if ways:
            found.append(f"shared link: {_listed(switch.children)}, below {switch.name}, {', and '.join(ways)}")
    return found


def _busy(machines: Sequence[Node], measured: Measured) -> list[str]:
    busy = [machines[number] for number in np.flatnonzero(measured.waited > BUSY).tolist()]
    if not busy:
        return []
    most = float(measured.waited.max())
    return [
        f"busy machines: on {_listed(busy)} the rank that measured waited for a core, up to {100 * most:.0f} % of the "
        "time; what follows may be slow for that alone, or look faster than it is"
    ]


def _listed(nodes: Sequence[Node]) -> str:
    return ", ".join(node.name for node in nodes[:MOST_NAMES]) + (" …" if len(nodes) > MOST_NAMES else "")


def _slow_links(machines: Sequence[Node]) -> list[str]:
    found = []
    for machine in machines:
        slow = []
        for does, way in (("sends", 0), ("receives", 1)):
            speed = _uplink(machine)[way]
            usual = median(_uplink(other)[way] for other in machines if other is not machine)
            if speed < SLOW_LINK * usual:
                share = f"{100 * speed / usual:.0f} % of the others' median of {show_speed(usual)}"
                slow.append(f"{does} at {show_speed(speed)}, {share}")
        if slow:
            found.append(f"slow link: {machine.name} {', and '.join(slow)}")
    return found


def _slow_machines(machines: Sequence[Node], measured: Measured) -> list[str]:
    found = []
    for machine, rate in enumerate(measured.local_rate):
        others = np.delete(measured.local_rate, machine)
        others = others[~np.isnan(others)]
        if len(others) and rate < SLOW_MACHINE * (usual := float(np.median(others))):
            found.append(
                f"slow machine: ranks of {machines[machine].name} exchange {show_speed(rate)} with each other, "
                f"{100 * rate / usual:.0f} % of the others' median of {show_speed(usual)}"
            )
    return found


def _late(machines: Sequence[Node]) -> list[str]:
    found = []
    for machine in machines if len(machines) > 2 else ():
        latency = _uplink(machine)[2]
        usual = median(_uplink(other)[2] for other in machines if other is not machine)
        if latency > LATE * usual and latency > usual + LATE_SECONDS:
            found.append(
                f"slow link: a message takes {show_time(latency)} on the link of {machine.name}; "
                f"the others' median is {show_time(usual)}"
            )
    return found


def slow_paths(rate: Matrix) -> list[tuple[int, int]]:
    """Return the pairs (i, j) of machines with less than i sends to other machines and j receives from others.

    rate: as in `Measured`.
    """
    if len(rate) < 3:
        return []
    return _below(rate, np.minimum.outer(np.nanmax(rate, axis=1), np.nanmax(rate, axis=0)))


def _below(rate: Matrix, expected: Matrix) -> list[tuple[int, int]]:
    return [(int(i), int(j)) for i, j in np.argwhere(rate < SLOW_LINK * expected)]


def _expected(root: Node, order: Sequence[str]) -> Matrix:
    """The rate of each pair, with machines in `order`, if all machines below a switch use its link at once."""
    ways: dict[str, list[tuple[Node, int]]] = {}

    def walk(node: Node, above: list[tuple[Node, int]]) -> int:
        """Note the links above each machine; return the number of machines."""
        if node.kind == "machine":
            ways[node.name] = [(node, 1), *above]
            return 1
        count = sum(1 for below in node.walk() if below.kind == "machine")
        for child in node.children:
            walk(child, above if node.uplink is None else [(node, count), *above])
        return count

    walk(root, [])
    expected = np.full((len(order), len(order)), np.nan)
    for i, source in enumerate(order):
        for j, target in enumerate(order):
            if i != j:
                up = [_uplink(node)[0] / count for node, count in ways[source] if (node, count) not in ways[target]]
                down = [_uplink(node)[1] / count for node, count in ways[target] if (node, count) not in ways[source]]
                expected[i, j] = min(*up, *down)
    return expected


def _slow_paths(root: Node, machines: Sequence[Node], measured: Measured) -> list[str]:
    if len(machines) < 3:
        return []
    found = []
    pairs = _below(measured.rate, _expected(root, [machine.name for machine in machines]))
    pairs.sort(key=lambda pair: float(measured.rate[pair]))
    every = int(np.count_nonzero(~np.isnan(measured.rate)))
    if 2 * len(pairs) > every:
        return [
            f"slow paths: {len(pairs)} of {every} carry less than {100 * SLOW_LINK:.0f} % of what both their links do; "
            "the switch between the machines is slow, or it or the machines were busy"
        ]
    for i, j in pairs[:MOST_PATHS]:
        up, down = _uplink(machines[i])[0], _uplink(machines[j])[1]
        found.append(
            f"slow path: {machines[i].name} to {machines[j].name} carries {show_speed(float(measured.rate[i, j]))}, "
            f"though {machines[i].name} sends at {show_speed(up)} and {machines[j].name} receives at "
            f"{show_speed(down)}; a switch between them is slow or was busy"
        )
    if len(pairs) > MOST_PATHS:
        found.append(f"slow paths: {len(pairs) - MOST_PATHS} more")
    return found


def _uplink(machine: Node) -> tuple[float, float, float]:
    assert machine.uplink is not None
    return machine.uplink.up, machine.uplink.down, machine.uplink.latency
