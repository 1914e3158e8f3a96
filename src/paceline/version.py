"""Paceline's version, and those of torch that it is tested with; here even where nothing is installed."""

VERSION = "0.2.0"
"""Ranks with different ones refuse each other."""

OLDEST_TORCH, NEWEST_TORCH = (2, 11), (2, 15)
"""Major and minor."""
