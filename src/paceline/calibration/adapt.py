"""The constants of `paceline.adapt`: when a network counts as changed.

What it costs to be wrong in those of `drift` and `links` was found by `studies/decision_sensitivity.py`: simulated
groups whose calls have 10 % of noise, and of which one in 30 is held up. With the constants as they are, calls of 0.5 s
lead to 1.3 measurements in vain in 1000 calls, before any has been made, and links that have changed are measured after
9.4, 4.0, 2.4 and 1.9 calls that take 1.25, 1.5, 2 and 5 times as long. With calls of 0.05 s it is 0.3 in 1000, and 19,
10, 5.7 and 2.0 calls.
"""

import math

# ---- How often ranks look at the large calls that the engine counts: adaptation ----

CALLS_SECONDS, BATCHES_SECONDS = 0.02, 0.2
"""Seconds that the calls between two stops should take, in a group and in a coordinator. To agree takes about 0.0002 s.
The caller does not wait for that; but a coordinator holds its batches until a thread in Python has looked.

Found: by hand on machine B. Off by 2: by reckoning, half agrees twice as often, which takes 2 % and 0.2 % of the time
and not 1 % and 0.1 %, and twice notices a change up to 0.04 and 0.4 s later."""
FIRST_STOP = 8
"""Calls before the first stop.

Found: by hand. Off by 2: a network that is not what it was taken for is noticed as many calls earlier or later."""
CAUTIOUS_CALLS = 16
"""Calls from the first stop to the second, as nobody knows yet how far ranks run ahead of each other.

Found: by hand. Off by 2: twice notices a change in these calls as many calls later. Half makes a rank wait once, at the
second stop, for one that is more than so many calls behind."""
MOST_CALLS = 32
"""Calls that ranks agree on at once, and calls between two stops; if there were more, the oldest are passed over.

Found: by hand. Off by 2: counts for calls that take less than `CALLS_SECONDS` or `BATCHES_SECONDS` divided by it: half
agrees up to twice as often on these, and twice notices a change up to 64 calls later."""

# ---- What proves a change: drift ----

NOISE = math.log(1.12)
"""A logarithm: a call that takes 1.12 times as long as usual is evidence of nothing.

Found: by hand on machine A. Off by 2: half (1.06 times) leads to 4.5 measurements in vain in 1000 calls of 0.5 s; twice
(1.25 times) to 0.1, but notices calls that take 1.25 times as long after 73 of them and not 9.4, and 1.5 times after
6.6 and not 4.0."""
MOST_EVIDENCE = math.log(2)
"""A logarithm: the most that one call can say, because anything may hold up a single one.

Found: by hand. Off by 2: half notices calls that take twice or five times as long after 5.0 of them and not 2.4 and
1.9; twice leads to 12 measurements in vain in 1000 calls of 0.5 s."""
PROOF = 1.9 * (MOST_EVIDENCE - NOISE)
"""A logarithm: two calls in a row that take twice the usual time prove a change, or four of 1.5 times, or ten of 1.25
times.

Found: by hand on machine A. A link that went from 500 to 100 Mbit/s was measured after 5 slow calls. Off by 2: one or
four calls of twice the time in place of two; half leads to 27 measurements in vain in 1000 calls of 0.5 s, twice to
none, but notices calls that take 1.25 times as long after 19 of them."""
SETTLING_CALLS = 8
"""Calls that show what is usual, after links turned out to be as they were.

Found: by hand. Off by 2: as many calls; where cores were busy for 200 calls of 0.05 s and free for the next 200, links
were measured 0.80 (half) and 0.73 times in 1000 calls and not 0.70."""
MOST_PATIENCE = 128
"""A factor: a measurement that explained nothing has to be worth up to so many times its price the next time.

Found: by hand. Off by 2: where cores were busy for 200 calls of 0.05 s and free for the next 200, links were measured
1.43 (half) and 0.50 times in 1000 calls and not 0.70, in vain; and after so much patience a change must cost half or
twice as many seconds, 19 or 77, to be noticed."""

# ---- What links are, and what it costs to look: network, replanner ----

OTHER_SPEED = 1.1
"""A factor by which a link's speed must differ from what it was taken for, or from another's, to count as another.

Found: by hand on machine A. Off by 2: where one of four links, measured with 3 % of noise, has become 10 % slower,
plans are made again in 74 (1.05) and 0 (1.2) of 100 cases and not in 46; for one that is 20 % slower in 100 and 88 and
not in 100. Links that are as they were led to new plans in none of 100 cases with each."""
MOST_WAITED, BURST = 0.3, 1.8
"""The fraction of a measurement for which a rank waits for a core, and how many times as fast as the whole the fastest
tenth of its streams comes, above both of which it may find a link slower than it is.

Found: on machine A under loads of 8 to 15, in 8 to 13 jobs each: ranks in a lab, whose links limit them, waited for
0.10 to 0.49 of the time, and bytes came 1.2 to 1.5 times as fast in a burst; ranks on the loopback interface, which
only cores limit, waited for 0.32 to 0.90, and bytes came 2.1 to 14 times as fast. Off by 2: half the wait passes over
slow links in none of these labs, twice takes busy cores for slow links in most of the other jobs; half the burst passes
over slow links in most labs where ranks wait that long, twice takes busy cores for slow links in most other jobs."""
FASTEST_MEASURED = 5e8
"""Bytes per second above which a measurement shows the rank and not the link.

Found: by hand. Off by 2: half passes over changes of links of 2 to 4 Gbit/s; twice takes a rank that had no core for a
change of a link of 4 to 8 Gbit/s, as far as that explains the pace of calls too."""
PRICE, PRICE_OF_SWITCHES = 0.3, 2.0
"""Seconds that it takes to measure the machines' own links, about, and to look for links that they share, at least.
Nothing is measured before calls have lost as much.

Found: on machine A: 0.27 s on 8+2, 0.33 on 1+1+1, 0.79 on 8x1. Off by 2: as many seconds; with half the price links
that have changed are measured after 10, 5.6, 3.1 and 1.9 calls of 0.05 s, and 1.2 times in 1000 in vain; with twice the
price after 37, 21, 11 and 3.3, and never in vain."""
EXPLAINS = math.log(1.1)
"""A logarithm: by so much other links must change what calls should take, in the way in which calls have changed. Else
noise was measured, or a link that does not matter.

Found: by hand on machine A. Off by 2: half changes nothing in the cases of `OTHER_SPEED`; twice makes no plans for a
link that is 10 % slower, in place of 46 times of 100."""
