"""The bounds of every topology, and the links that are assumed where nothing is known.

Speeds are in bytes per second, latencies in seconds.
"""

from paceline.topology.tree import Link

MOST_RANKS = 1_000_000
"""Ranks that a topology can have."""
LOCAL = Link(1.25e9, 1.25e9, 1e-6)
"""A rank's link inside its machine: 10 Gbit/s."""
NETWORK_LATENCY = 50e-6
"""Seconds that one message takes to cross the link of a machine or switch."""
UPLINK = 1.25e9
"""Bytes per second, each way, of a machine whose interface's speed is not known: 10 Gbit/s."""
