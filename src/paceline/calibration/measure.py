"""The constants of `paceline.measure`: how links are measured.

All were set by hand on machine B, and checked with `paceline check` in labs: more time makes figures steadier and the
start slower. Their cost if wrong was not measured, except where it is said. On simulated trees with 3 % of noise the
rates of switches were found with an error of 3.2 % on average.
"""

# ---- Pairs of ranks: pairs ----

ROUND_TRIPS, WARM_UP_TRIPS = 16, 2
"""Round trips that are measured, and round trips before them that are not counted."""
LATENCY_SECONDS = 0.05
"""Seconds after which no more round trips begin, where each takes long."""
STREAM_PIECES, SETTLED_PIECES = 32, 8
"""Messages of a stream, and those that arrive before the clock starts, because of a shaper's burst and TCP's slow
start."""
SMALLEST_STREAM, LARGEST_STREAM = 64 << 10, 256 << 20
"""Bytes of the first and the longest stream."""
STREAM_GROWTH = 16
"""A factor: the next stream is at most this many times as long."""
STREAMS = 3
"""Streams of equal length, as a rank that loses its core for a moment spoils one of them."""
IN_FLIGHT = 4
"""Messages that are sent or received at once."""

# ---- Many machines at once: contention ----

SMALLEST_MESSAGE, LARGEST_MESSAGE = 4 << 10, 1 << 20
"""Bytes of the first messages of a round, and of the longest."""
ALIKE = 16
"""Messages of equal length, after which the next ones are twice as long. So a round takes few messages, and hardly
longer than intended on any link."""
SETTLING = 0.3
"""The fraction of a round that does not count, because TCP finds its rate meanwhile."""

# ---- A whole network, for `paceline check` and after a change: links ----

MOST_ROUNDS = 63
"""Rounds of pairs: enough for 64 machines to meet all others. With more machines, each meets this many others."""
ROUNDS_AGAIN = 6
"""Rounds in which slow pairs are measured again."""
BETWEEN_SECONDS, AGAIN_SECONDS = 18.0, 5.0
"""Seconds for all pairs of machines, and for those that are measured again. 64 ranks on 8 machines, all on two cores,
took 55 s in all."""
CROWD_SECONDS = 10.0
"""Seconds for the rounds in which all machines send; parts of them have half as long, and so on."""
CROWDS_SECONDS = 18.0
"""Seconds after which no more of these rounds begin, because they take longer where ranks share few cores."""
LONGEST_ROUND, LEAST_ROUNDS = 0.25, 32
"""The most seconds of a round in which all machines send, and the fewest such rounds."""
WITHIN_SECONDS = 5.0
"""Seconds for all measurements within a machine."""
SHORTEST_STREAM_SECONDS, LONGEST_STREAM_SECONDS, LONGEST_WITHIN_SECONDS = 0.02, 0.6, 0.2
"""Seconds of streams: the shortest and the longest between machines, and the longest within one. Few machines leave
time for the longest."""
ENOUGH_BETWEEN, ENOUGH_LATE, ENOUGH_WITHIN = 256 << 10, 64 << 10, 8 << 20
"""Bytes that a stream must have to count, see `send_stream`: between machines, there when time is short, and within."""

# ---- The links of a network that nobody described, at the start: uplinks ----

LATENCY_ROUNDS = 3
"""Rounds in which latencies are measured."""
MOST_UPLINK_ROUNDS = 12
"""Rounds in which every machine sends to one other and receives from one. Where there are few machines, every pair
meets more than once, because a rank that waits for a core spoils a round."""
OFTEN, FEW_MACHINES = 3, 5
"""The times that each round is repeated where there are at most `FEW_MACHINES` machines; elsewhere it runs twice."""
ROUND_SECONDS, ROUND_TRIPS_AT_START = 0.02, 16
"""Seconds of a round, or its round trips where these take longer, because TCP needs time to find its rate.

Found: on machine A, where the whole took 0.27 s on 8+2, 0.33 on 1+1+1 and 0.79 on 8x1, and 16 MiB then took 1.00 to
1.03 times the bound T*, but 1.21 and 1.74 in the first call on 8+2."""
