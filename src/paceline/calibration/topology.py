"""The constants of `paceline.topology`: what measured speeds say of links and switches.

All were set by hand on simulated trees with some per cent of noise: of 150 fixed trees the speeds of switches are off
by 3.4 % in the mean, by less than 9 % in 95 % of them, and by 12 % at worst (tests/topology/test_switches.py). Their
cost if wrong was not measured.
"""

# ---- Switches from rounds in which all machines send: switches ----

APART = 0.1
"""A fraction of its own links' speed: a group of machines must lose this much less among themselves."""
HINDERED = 0.9
"""A fraction: transfers below this share of what the machines' own links carry are slowed down by another link."""
USUAL = 0.6
"""The quantile of the sums of slowed-down rounds that is taken for the link's speed; in some rounds other links slow
the transfers down even more."""
FULL = 0.75
"""A fraction: a link that carries this share of its speed counts as busy, since no two measurements are equal."""
MOSTLY = 0.5
"""A fraction: this share of what a side's transfers lose must be lost while their link is busy."""
NEWS = 0.25
"""A fraction: this share of what a side's transfers lose must be unexplained by other links."""
BETTER = 0.02
"""A fraction of the link's speed by which the misfit must fall to move a machine to the other side."""
PROVEN, GOOD = 0.15, 0.03
"""Fractions of the link's speed: the misfits up to which a split is proven, and needs no improvement."""
LATE_SIDE_SECONDS, LATE_SIDE = 100e-6, 2.0
"""Messages between sides must take this many seconds longer, and this many times as long, as messages within each."""
NARROW = 0.99
"""A fraction. A switch's link below this share of its children's links together was measured; above it, the speed was
only inferred from them."""

# ---- What is named as slow: judge ----

SLOW_LINK = 0.8
"""A fraction: a link below this share of the others' median speed is named."""
SLOW_MACHINE = 0.6
"""A fraction: a machine whose ranks exchange less than this share of the others' median is named."""
LATE = 3.0
"""A factor: a latency above this multiple of the others' median is named."""
LATE_SECONDS = 100e-6
"""Seconds by which such a latency must exceed the median too."""
BUSY = 0.25
"""The fraction of the time that a rank may wait for a core; above it, its measurements say little about a link."""
