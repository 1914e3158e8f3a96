"""What transfers between machines get that all run at once, on a known tree: max-min fair shares of its links.

Progressive filling: D. Bertsekas, R. Gallager, "Data Networks", 1992, section 6.5.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.topology import Node, Topology

Link = tuple[int, str]
"""The node, by its number in a walk, and which way."""


class FairNetwork:
    """The machines of a topology, numbered in the order of a walk."""

    def __init__(self, topology: Topology) -> None:
        self.speed: dict[Link, float] = {}
        self.latency: dict[Link, float] = {}
        self.above: list[list[int]] = []
        """Of each machine: itself and all switches above it but the root, as nodes."""
        self._count = 0
        self._walk(topology.root, [])

    def _walk(self, node: Node, above: list[int]) -> None:
        number, self._count = self._count, self._count + 1
        if node.uplink is not None:
            above = [number, *above]
            for way, speed in (("up", node.uplink.up), ("down", node.uplink.down)):
                self.speed[number, way] = speed
                self.latency[number, way] = node.uplink.latency
        if node.kind == "machine":
            self.above.append(above)
            return
        for child in node.children:
            self._walk(child, above)

    def path(self, source: int, target: int) -> list[Link]:
        up, down = self.above[source], self.above[target]
        return [(node, "up") for node in up if node not in down] + [(node, "down") for node in down if node not in up]

    def latencies(self, source: int, target: int) -> float:
        return sum(self.latency[link] for link in self.path(source, target))

    def alone(self, source: int, target: int) -> float:
        """What a transfer gets if it is the only one."""
        return min(self.speed[link] for link in self.path(source, target))

    def rates(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        """Of each transfer, in bytes per second."""
        paths = [self.path(*pair) for pair in pairs]
        rates = [0.0] * len(pairs)
        room = dict(self.speed)
        growing = set(range(len(pairs)))
        while growing:
            users: dict[Link, int] = {}
            for index in growing:
                for link in paths[index]:
                    users[link] = users.get(link, 0) + 1
            step = min(room[link] / count for link, count in users.items())
            for index in growing:
                rates[index] += step
            for link, count in users.items():
                room[link] -= step * count
            full = {link for link in users if room[link] <= 1e-9 * self.speed[link]}
            growing = {index for index in growing if not full.intersection(paths[index])}
        return rates
