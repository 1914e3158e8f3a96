"""The constants of `paceline.adapt.measure`: how links are measured.

All were set by hand on machine B, and checked with `paceline check` in labs: more time makes figures steadier and the
start slower. On simulated trees with 3 % of noise the rates of switches were found with an error of 3.2 % on average.

Where "Off by 2" speaks of errors, `studies/decision_sensitivity.py` found them in simulations, which say how noisy they
are. Where it speaks of seconds or bytes alone, they follow from the code. What half or twice does to figures of real
links was measured of none: that depends on the shapers, queues and neighbours of each network, of which no lab has
enough.
"""

# ---- Pairs of ranks: pairs ----

ROUND_TRIPS, WARM_UP_TRIPS = 16, 2
"""Round trips that are measured, and round trips before them that are not counted.

Off by 2: where one trip in ten is held up, latencies are found 2.5 % too long (half of the first) or 0.0 % (twice), and
not 0.5 %, in 4.2 or 7.9 ms and not 5.5; where the first four trips take five times as long, 0.7 % (half of the second)
or 0.2 % too long."""
LATENCY_SECONDS = 0.05
"""Seconds after which no more round trips begin, where each takes long.

Off by 2: half changes nothing for round trips of 20 ms, of which three have to be made; twice takes 0.12 s for a pair
and not 0.08."""
STREAM_PIECES, SETTLED_PIECES = 32, 8
"""Messages of a stream, and those that arrive before the clock starts, because of a shaper's burst and TCP's slow
start.

Off by 2: not measured. Half the messages, or twice those before the clock, leave 8 or 16 of them that count, and not
24; half of the second leaves a burst of 1/8 to 1/4 of the stream in its figure."""
SMALLEST_STREAM, LARGEST_STREAM = 64 << 10, 256 << 20
"""Bytes of the first and the longest stream.

Off by 2: half of the first takes one more short stream where time is short, twice 64 KiB more. The second counts on
links above 10 Gbit/s, and above 4 GB/s within a machine, where 256 MiB take less than their time: half makes their
figure come from half that time, twice from twice."""
STREAM_GROWTH = 16
"""A factor: the next stream is at most this many times as long.

Off by 2: before the 256 MiB of the fastest links there are 4 shorter streams (half), or 3 as now; a first figure that
is too high makes the next stream at most 8 or 32 times as long."""
STREAMS = 3
"""Streams of equal length, as a rank that loses its core for a moment spoils one of them.

Off by 2: by reckoning, if a stream in ten is spoilt, all of them are for one pair in 100 (two streams), 1000 (three) or
10^6 (six). They share the same time, so each is as much longer or shorter."""
IN_FLIGHT = 4
"""Messages that are sent or received at once.

Off by 2: not measured; half leaves a link idle where a rank takes longer than a message to post the next one, twice
takes twice the memory."""

# ---- Many machines at once: contention ----

SMALLEST_MESSAGE, LARGEST_MESSAGE = 4 << 10, 1 << 20
"""Bytes of the first messages of a round, and of the longest.

Off by 2: 16 messages more or fewer for the first. The second counts where a round has more than 16 MiB, above 0.5
Gbit/s in 0.25 s: half takes up to twice as many messages there, twice lets a round end up to 4 MiB later."""
ALIKE = 16
"""Messages of equal length, after which the next ones are twice as long. So a round takes few messages, and hardly
longer than intended on any link.

Off by 2: with four messages on their way a round is up to 25 % longer than meant; half makes that 50 %, and twice 12 %,
for twice as many messages."""
SETTLING = 0.3
"""The fraction of a round that does not count, because TCP finds its rate meanwhile.

Off by 2: not measured; half counts some of the time in which TCP seeks its rate, twice leaves 0.4 of a round in place
of 0.7, and the noise that a shorter time has."""

# ---- A whole network, for `paceline check` and after a change: links ----

MOST_ROUNDS = 63
"""Rounds of pairs: enough for 64 machines to meet all others. With more machines, each meets this many others.

Off by 2: counts above 32 machines only: half leaves half of the pairs of 64 machines unmeasured, twice measures all of
up to 128 in the same time."""
ROUNDS_AGAIN = 6
"""Rounds in which slow pairs are measured again.

Off by 2: half measures as many pairs fewer again, where more than three of a machine are slow; twice as many more, each
for half as long."""
BETWEEN_SECONDS, AGAIN_SECONDS = 18.0, 5.0
"""Seconds for all pairs of machines, and for those that are measured again. 64 ranks on 8 machines, all on two cores,
took 55 s in all.

Off by 2: as many seconds, and streams that are as much shorter or longer until they reach their bounds."""
CROWD_SECONDS = 10.0
"""Seconds for the rounds in which all machines send; parts of them have half as long, and so on.

Off by 2: as many seconds, up to `CROWDS_SECONDS`; rounds are as much shorter or longer, up to `LONGEST_ROUND`."""
CROWDS_SECONDS = 18.0
"""Seconds after which no more of these rounds begin, because they take longer where ranks share few cores.

Off by 2: as many seconds where cores are few; half leaves out rounds there, with the errors of `LEAST_ROUNDS`."""
LONGEST_ROUND, LEAST_ROUNDS = 0.25, 32
"""The most seconds of a round in which all machines send, and the fewest such rounds.

Off by 2: as many seconds for either. With half or twice the rounds transfers on 30 trees were off by 4.7 or 3.0 % in
the mean, and not by 4.0; 34 machines and more have more rounds anyway, as each meets all others."""
WITHIN_SECONDS = 5.0
"""Seconds for all measurements within a machine.

Off by 2: as many seconds, where a machine has more than 12 ranks; with fewer, streams are as long as they may be."""
SHORTEST_STREAM_SECONDS, LONGEST_STREAM_SECONDS, LONGEST_WITHIN_SECONDS = 0.02, 0.6, 0.2
"""Seconds of streams: the shortest and the longest between machines, and the longest within one. Few machines leave
time for the longest.

Off by 2: the shortest costs as many seconds where machines are many; the longest as many where they are few; within a
machine up to 5 s in all."""
ENOUGH_BETWEEN, ENOUGH_LATE, ENOUGH_WITHIN = 256 << 10, 64 << 10, 8 << 20
"""Bytes that a stream must have to count, see `send_stream`: between machines, there when time is short, and within.

Off by 2: by reckoning, a wake-up of 25 us more or less is 1.2 % of the time of 256 KiB at 1 Gbit/s, 4.8 % of that of 64
KiB, and 3.0 % of that of 8 MiB at 10 GB/s; half has twice that error, and twice takes as many bytes at least."""

# ---- The links of a network that nobody described, at the start: uplinks ----

LATENCY_ROUNDS = 3
"""Rounds in which latencies are measured.

Off by 2: as many times 5 ms; two rounds have two thirds of the pairs of four machines, six have all pairs of up to six
machines."""
MOST_UPLINK_ROUNDS = 12
"""Rounds in which every machine sends to one other and receives from one. Where there are few machines, every pair
meets more than once, because a rank that waits for a core spoils a round.

Off by 2: where each rank waits for its core in a round of ten, transfers of the worst pair of 2 to 12 machines are off
by 24 % (half) or 2.0 % (twice) in the mean, and not by 4.8 %; there are 5.4 or 11.4 rounds in the mean and not 9.0."""
OFTEN, FEW_MACHINES = 3, 5
"""The times that each round is repeated where there are at most `FEW_MACHINES` machines; elsewhere it runs twice.

Off by 2: as above, 6.3 or 11 % for the first, in 7.6 or 10.8 rounds; 6.0 or 8.1 % for the second, in 7.8 or 9.0."""
ROUND_SECONDS, ROUND_TRIPS_AT_START = 0.02, 16
"""Seconds of a round, or its round trips where these take longer, because TCP needs time to find its rate.

Found: on machine A, where the whole took 0.27 s on 8+2, 0.33 on 1+1+1 and 0.79 on 8x1, and 16 MiB then took 1.00 to
1.03 times the bound T*, but 1.21 and 1.74 in the first call on 8+2. Off by
2: as many seconds of the 0.24 that 12 rounds take; what half does to figures was not measured."""
