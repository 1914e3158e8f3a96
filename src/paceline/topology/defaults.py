"""What holds where nobody said otherwise: bytes per second, and seconds per crossing."""

from paceline.topology.tree import Link

LOCAL = Link(1.25e9, 1.25e9, 1e-6)
"""A rank's link inside its machine: 10 Gbit/s."""
NETWORK_LATENCY = 50e-6
"""Of a link of a machine or switch."""
UPLINK = 1.25e9
"""Of a machine about whose interface nothing is known: 10 Gbit/s, each way."""
