"""The constants of `paceline.cpu`."""

SPIN_US = 100.0
"""Microseconds for which a rank that has a CPU of its own spins while it waits. That pays as long as it is shorter than
a few wake-ups.

Found: by hand on machine B, where a wake-up between two cores takes 28 us. Off by 2: not measured."""
INPUT_SHARE = 4
"""A divisor: a fourth of the cores beside the engine's go to input workers.

Found: by hand. Off by 2: not measured; it depends on the program."""
SEPARATE_INPUT = 4
"""Cores of a rank from which on input workers have some of their own.

Found: by hand. Off by 2: not measured."""
