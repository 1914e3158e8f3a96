"""The constants of `paceline.topology`: what measured speeds say of links and switches.

All were set by hand on simulated trees with some per cent of noise: of 150 fixed trees the speeds of switches are off
by 3.4 % in the mean, by less than 9 % in 95 % of them, and by 12 % at worst (tests/topology/test_switches.py).

What it costs to be wrong was found by `studies/decision_sensitivity.py` on such trees with 3 % of noise, of which it
has 60 for switches: with the constants as they are, transfers are off by 3.7 % in the mean and by 12 % at worst, and on
15 trees without a slow switch none is found, as with all wrong values too. "Off by 2" gives the error in the mean for
half and twice; where a constant is a share that counts as almost all, half and twice of what is missing.
"""

# ---- Switches from rounds in which all machines send: switches ----

APART = 0.1
"""A fraction of its own links' speed: a group of machines must lose this much less among themselves.

Off by 2: 3.6 and 4.9 %, at worst 18 and 15 %."""
HINDERED = 0.9
"""A fraction: transfers below this share of what the machines' own links carry are slowed down by another link.

Off by 2: 3.9 and 3.8 %."""
USUAL = 0.6
"""The quantile of the sums of slowed-down rounds that is taken for the link's speed; in some rounds other links slow
the transfers down even more.

Off by 2: 5.4 % (half), at worst 18 %; 3.6 % with 1, which is the most that there can be."""
FULL = 0.75
"""A fraction: a link that carries this share of its speed counts as busy, since no two measurements are equal.

Off by 2: 3.7 % (half); 20 % with 1, the most that there can be."""
MOSTLY = 0.5
"""A fraction: this share of what a side's transfers lose must be lost while their link is busy.

Off by 2: half changes nothing; 19 % with 1, the most that there can be."""
NEWS = 0.25
"""A fraction: this share of what a side's transfers lose must be unexplained by other links.

Off by 2: half changes nothing; 3.6 % with twice."""
BETTER = 0.02
"""A fraction of the link's speed by which the misfit must fall to move a machine to the other side.

Off by 2: changes nothing."""
PROVEN, GOOD = 0.15, 0.03
"""Fractions of the link's speed: the misfits up to which a split is proven, and needs no improvement.

Off by 2: 4.1 and 4.5 % (`PROVEN`), at worst 12 and 13 %; `GOOD` changes nothing, it is the time to search."""
LATE_SIDE_SECONDS, LATE_SIDE = 100e-6, 2.0
"""Messages between sides must take this many seconds longer, and this many times as long, as messages within each.

Off by 2: of two buildings with messages of 100 us within, 17 of 100 are found where messages between them take 250 us,
and all from 400 us on. Half of the first changes nothing, twice finds none at 250 us. With 1 for the second it is 62 of
100, and none where there is one building; with 4 none is found at 400 us."""
NARROW = 0.99
"""A fraction. A switch's link below this share of its children's links together was measured; above it, the speed was
only inferred from them.

Off by 2: by reckoning, a known switch whose link carries 0.5 or 2 % less than its children keeps the speed that was
known, or gets the one that was found, though the other would be right: an error of as much if nothing has changed."""

# ---- What is named as slow: judge ----

SLOW_LINK = 0.8
"""A fraction: a link below this share of the others' median speed is named.

Off by 2: a link of 0.7 is not named with 0.6; with 0.9 nothing is named for nothing at 3 % of noise."""
SLOW_MACHINE = 0.6
"""A fraction: a machine whose ranks exchange less than this share of the others' median is named.

Off by 2: at 10 % of noise 97 of 100 machines of 0.5 are named; none is with 0.2, and with 0.8 they all are, but 25 of
100 networks of eight equal machines have one that is named for nothing."""
LATE = 3.0
"""A factor: a latency above this multiple of the others' median is named.

Off by 2: a machine to which messages of 200 us take 400 us is named 58 times in 100, always with 1.5 and never with 6;
one to which they take 1 ms always, and with none of them one for nothing, at 30 % of noise."""
LATE_SECONDS = 100e-6
"""Seconds by which such a latency must exceed the median too.

Off by 2: half changes nothing in the case of `LATE`, twice names that machine 52 times in 100."""
BUSY = 0.25
"""The fraction of the time that a rank may wait for a core; above it, its measurements say little about a link.

Off by 2: half names ranks that wait for 13 to 25 % of the time, twice passes over those that wait for 25 to 50 %."""
