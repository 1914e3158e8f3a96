"""The constants of `paceline.torch`."""

MOST_AHEAD = 8
"""Batches that may be ready before the slowest rank takes them.

Found: by hand. Off by 2: not measured; it costs memory, and helps only where reading takes unequally long."""
MEMORY_SHARE = 8
"""A divisor: batches that are ready take at most an eighth of the memory that is available when the first one is.

Found: by hand. Off by 2: not measured."""
SPEED_WINDOW = 16
"""Batches after which ranks that share batches by their speed tell each other how fast they were.

Found: by hand. Off by 2: not measured."""
