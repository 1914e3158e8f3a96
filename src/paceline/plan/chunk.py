"""The size of the chunks into which a large buffer is cut, so that the levels of its plan overlap.

A chunk is what the slowest link carries in a few milliseconds and a round trip, so that links stay busy while data go
there and results come back. Measurements with 500, 250, 200 and 100 Mbit/s showed that longer chunks leave the slowest
link idle at the start and at the end, and that four of them under way fill a switch's queue until it drops packets.
Shorter chunks cost every rank more time per byte, which is what counts where links are fast. So chunks of large buffers
may be twice as long, with as many bytes under way (see `Line.cut`).
"""

from __future__ import annotations

import math

from paceline.calibration import plan as fitted
from paceline.plan.network import Network


def chunk_bytes(network: Network) -> int:
    """Return the bytes of a chunk on this network, a power of two."""
    speeds = [min(network.up[index], network.down[index]) for index in _between_machines(network)]
    slowest, there_and_back = min(speeds, default=fitted.LARGEST_CHUNK / fitted.CHUNK_SECONDS), _round_trip(network)
    largest = max(fitted.LARGEST_CHUNK, min(fitted.FARTHEST_CHUNK, slowest * there_and_back))
    wanted = min(largest, max(fitted.SMALLEST_CHUNK, slowest * (fitted.CHUNK_SECONDS + there_and_back)))
    return 1 << round(math.log2(max(wanted, fitted.CHUNK_PER_RANK * network.world)))


def _round_trip(network: Network) -> float:
    """The round-trip time in seconds between the farthest machines, as if the root were between them."""
    way = [0.0] * len(network.nodes)
    for index in _between_machines(network):  # parents first
        way[index] = way[network.parent[index]] + float(network.latency[index])
    return 4 * max(way)


def _between_machines(network: Network) -> list[int]:
    return [
        index for index, node in enumerate(network.nodes) if node.kind in ("switch", "machine") and network.joins(index)
    ]
