"""How large the chunks are into which a large buffer is cut, so that its levels overlap.

A chunk is what the slowest link carries in a few milliseconds and a round trip: so many are under way that links stay
busy while data go there and results come back. Measured with 500, 250, 200 and 100 Mbit/s: longer ones leave that link
idle at the start and at the end, and with four of them under way fill a switch's queue until it drops packets; shorter
ones cost every rank more time per byte, which is what counts where links are fast. Of large buffers the engine makes
chunks up to twice as long, with as many bytes under way.
"""

from __future__ import annotations

import math

from paceline.plan.network import Network

_SECONDS = 0.004
_SMALLEST, _LARGEST = 1 << 16, 1 << 22
_FARTHEST = 1 << 26
"""Where more than the largest chunk is on the way in a round trip; four of them take memory on every rank."""
_PER_RANK = 1 << 14
"""Plans cut a chunk into about as many parts as there are ranks, and each is a message."""


def chunk_bytes(network: Network) -> int:
    """Bytes of a chunk, a power of two."""
    speeds = [min(network.up[index], network.down[index]) for index in _between_machines(network)]
    slowest, there_and_back = min(speeds, default=_LARGEST / _SECONDS), _round_trip(network)
    largest = max(_LARGEST, min(_FARTHEST, slowest * there_and_back))
    wanted = min(largest, max(_SMALLEST, slowest * (_SECONDS + there_and_back)))
    return 1 << round(math.log2(max(wanted, _PER_RANK * network.world)))


def _round_trip(network: Network) -> float:
    """Seconds between the farthest machines and back, as if the root were between them."""
    way = [0.0] * len(network.nodes)
    for index in _between_machines(network):  # parents first
        way[index] = way[network.parent[index]] + float(network.latency[index])
    return 4 * max(way)


def _between_machines(network: Network) -> list[int]:
    return [
        index for index, node in enumerate(network.nodes) if node.kind in ("switch", "machine") and network.joins(index)
    ]
