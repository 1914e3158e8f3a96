"""The constants of `paceline.adapt`: when a network counts as changed."""

import math

# ---- How often ranks look at the large calls that the engine counts: adaptation ----

CALLS_SECONDS, BATCHES_SECONDS = 0.02, 0.2
"""Seconds that the calls between two stops should take, in a group and in a coordinator. To agree takes about 0.0002 s.
The caller does not wait for that; but a coordinator holds its batches until a thread in Python has looked.

Found: by hand on machine B. Off by 2: not measured; what a coordinator notices comes later, or is paid more often."""
FIRST_STOP = 8
"""Calls before the first stop.

Found: by hand. Off by 2: not measured."""
CAUTIOUS_CALLS = 16
"""Calls from the first stop to the second, as nobody knows yet how far ranks run ahead of each other.

Found: by hand. Off by 2: not measured; a stop that comes too early waits for a rank that is behind."""
MOST_CALLS = 32
"""Calls that ranks agree on at once, and calls between two stops; if there were more, the oldest are passed over.

Found: by hand. Off by 2: not measured."""

# ---- What proves a change: drift ----

NOISE = math.log(1.12)
"""A logarithm: a call that takes 1.12 times as long as usual is evidence of nothing.

Found: by hand on machine A. Off by 2: not measured."""
MOST_EVIDENCE = math.log(2)
"""A logarithm: the most that one call can say, because anything may hold up a single one.

Found: by hand. Off by 2: not measured."""
PROOF = 1.9 * (MOST_EVIDENCE - NOISE)
"""A logarithm: two calls in a row that take twice the usual time prove a change, or four of 1.5 times, or ten of 1.25
times.

Found: by hand on machine A. A link that went from 500 to 100 Mbit/s was measured after 5 slow calls. Off by 2: one or
four calls of twice the time in place of two."""
SETTLING_CALLS = 8
"""Calls that show what is usual, after links turned out to be as they were.

Found: by hand. Off by 2: not measured."""
MOST_PATIENCE = 128
"""A factor: a measurement that explained nothing has to be worth up to so many times its price the next time.

Found: by hand. Off by 2: not measured."""

# ---- What links are, and what it costs to look: network, replanner ----

OTHER_SPEED = 1.1
"""A factor by which a link's speed must differ from what it was taken for, or from another's, to count as another.

Found: by hand on machine A. Off by 2: not measured."""
FASTEST_MEASURED = 5e8
"""Bytes per second above which a measurement shows the rank and not the link.

Found: by hand. Off by 2: not measured."""
PRICE, PRICE_OF_SWITCHES = 0.3, 2.0
"""Seconds that it takes to measure the machines' own links, about, and to look for links that they share, at least.
Nothing is measured before calls have lost as much.

Found: on machine A: 0.27 s on 8+2, 0.33 on 1+1+1, 0.79 on 8x1. Off by 2: as many seconds."""
EXPLAINS = math.log(1.1)
"""A logarithm: by so much other links must change what calls should take, in the way in which calls have changed. Else
noise was measured, or a link that does not matter.

Found: by hand on machine A. Off by 2: not measured."""
