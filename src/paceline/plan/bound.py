"""T*: the time that no all-reduce on this network can beat, whatever its plan.

All data on one side of a link must get to the other side, and all of the result back, so the link carries the whole
buffer each way. Where M parts of the network meet, in a switch or a machine, bringing an item together takes M-1
crossings from one part into another, and so does bringing the result back: 2 (M-1) in all, each of which leaves one
part and enters another.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.plan.network import Network
from paceline.topology import Topology


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound in seconds, without latency, and its cause in one sentence."""

    seconds: float
    reason: str


def bound(topology: Topology | Network, nbytes: int) -> Bound:
    """Return T* of an all-reduce of `nbytes` bytes: the largest of the bounds of all links and nodes."""
    network = topology if isinstance(topology, Network) else Network(topology)
    found = Bound(0.0, "A single rank has nobody to wait for.")
    for index in range(len(network.nodes)):
        for one in _bounds_at(network, index, nbytes):
            if one.seconds > found.seconds * (1 + 1e-12):
                found = one
    return found


def _bounds_at(network: Network, index: int, nbytes: int) -> list[Bound]:
    """The bounds of the link above the node and of the parts that meet in it."""
    name = network.name(index)
    bounds: list[Bound] = []
    if network.joins(index):
        slower = min(network.up[index], network.down[index])
        bounds.append(Bound(float(nbytes / slower), f"The link of {name} carries the whole buffer each way."))
    meeting = [child for child in network.children[index] if network.joins(child)]
    speeds = [(float(network.up[child]), float(network.down[child])) for child in meeting]
    if network.joins(index):  # the rest of the network is one more part
        speeds.append((float(network.down[index]), float(network.up[index])))
    if len(speeds) > 1:
        crossings = 2 * (len(speeds) - 1)
        slower = min(sum(way) for way in zip(*speeds, strict=True))
        reason = f"At {name} {len(speeds)} parts of the network meet, which takes {crossings} crossings an item."
        bounds.append(Bound(nbytes * crossings / slower, reason))
    return bounds
