"""The constants of `paceline.plan`: which plan serves which size, and what a plan costs.

What it costs to be wrong was computed for most of them by `studies/sensitivity.py`: the choice that is made with half
or twice the value, costed with the value itself, over the topologies in `docs/topologies` and the sizes of
`plan.between.SIZES`, for all collectives that plans are made for, and for all-reduces that may be encoded. It says
nothing of errors that the cost model makes with the right values too, and nothing of the memory of one machine, which
the model does not know.
"""

# ---- Which plan: choose, between, shares ----

ONE_SHOT_BYTES_SHARED = 128 * 1024
"""Bytes of an all-reduce in one shot in shared memory, times the number of ranks. One shot takes one hand-over and
reads n - 1 copies.

Found: on machine B, where it paid up to 64 KiB at 2 ranks and up to 32 KiB at 4. Off by 2: not measured, because only
the time of copies and hand-overs tells; it counts from 32 to 64 KiB at 2 ranks, where 64 KiB are the most, and from 16
to 64 at 4."""
ONE_SHOT_MOVED = 4 * 1024
"""Bytes of a rank's data that are only moved, up to which they go in one shot. Above that, ranks read them where they
lie, which copies them once and not twice.

Found: on machine B. Off by 2: not measured; from 2 to 4 KiB half saves a copy of each byte for one more hand-over, and
twice the other way round from 4 to 8."""
ONE_SHOT_LEAST = 1024
"""Bytes up to which an all-reduce in shared memory goes in one shot, however many ranks there are.

Found: by hand. Off by 2: counts above 64 ranks of one machine (twice), or above 128 (half), for 0.5 to 2 KiB."""
FLAT_BROADCAST_RANKS = 4
"""Ranks of one machine up to which all read a broadcast from the root at once.

Found: by hand. Off by 2: not measured; half takes two hand-overs and not one at 3 and 4 ranks, and twice one and not
three at 5 to 8, where all then read the same memory at once."""
MOST_LEADERS = 32
"""Leaders up to which an exchange of whole buffers is considered. Each receives a message from every other, one after
the other, so with more leaders an exchange is never the quickest.

Found: by the cost model. Off by 2: changes no choice."""
TIE = 0.005
"""A fraction: up to 64 KiB, plans that cost at most this much more than the cheapest are ties. Paceline's plan wins
them. Few different plans are better than many, and the model is no more exact than that.

Found: on machine A. The model predicts 1079 us on 2+3 by Paceline's own plan and 1064 us by leaders, and 1114 and 1100
us were measured, at half the CPU time; 0.02, the value before, hid that. Off by 2: 1.010 times as long at worst for
plain all-reduces (twice, 64 KiB on 2+2); 1.23 for one of 64 KiB on 1x8 that is encoded (half), because ring is as quick
as Paceline's plan only where nothing is; 1.000 in the mean."""
TIE_IN_CHUNKS = 0.05
"""The same fraction above 64 KiB, where buffers are cut into chunks and the model is worse.

Found: on machine B. For 512 KiB on 1+1+1 the model predicts 21.4 ms by rabenseifner and 22.0 ms by Paceline's own plan;
28.4 and 22.9 ms were measured. Off by 2: 1.18 times as long at worst (twice, 128 KiB on 1x8, encoded; 1.09 plain),
1.001 in the mean; half 1.03."""
BROADCAST_ROOTS = 4
"""Roots, spread over the network, for which a broadcast that is turned is costed.

Found: by hand. Off by 2: 1.11 times as long at worst (half, 1 MiB on 1x8) and 1.05 (twice, 512 KiB), 1.001 in the mean
over all roots; else it is the time to choose."""
LONGEST_CHAIN = 256
"""Machines up to which a broadcast along a chain is considered. In a longer one the first chunk alone would be on its
way for seconds where links are slow.

Found: by the cost model for machines with links of 1 Gbit/s: a broadcast of 1 GiB by the tree takes 6.4 times as long
as by the chain on 100 machines, 6.7 on 200 and 5.3 on 256; the chain is chosen from 16, 32 and 128 MiB on. The value
before was 64. To choose takes 0.2 s of CPU time on 200 machines. No network of that size was at hand. Off by 2: half
takes those 6.7 times as long on 200 machines; twice would save as much as 5.1 times on 400, where to choose takes 0.5
s."""
WORTH_MORE_MESSAGES = 0.01
"""A fraction of its time by which the busiest link must be quicker for shares that need more messages.

Found: by hand. Off by 2: changes no choice."""

# ---- Chunks: chunk, and the cut in cost ----

CHUNK_SECONDS = 0.004
"""Seconds that the slowest link needs for a chunk, beside a round trip.

Found: on machine B with links of 100 to 500 Mbit/s and queues of 10 ms. Longer chunks leave the slowest link idle at
the start and at the end, and four of them under way overflow a queue; shorter ones cost every rank more time per byte.
Off by 2: 1.64 times as long at worst (twice, broadcast of 256 KiB on 2+2+3; all-reduce of 128 KiB on 3+3+4 1.35), 1.007
in the mean; half costs 1.04 at worst and 0.997 in the mean by the model, which does not know what a rank pays for every
byte of short chunks."""
SMALLEST_CHUNK = 1 << 16
"""Bytes of a chunk at least: a message between machines up to here leaves without being asked for.

Found: by hand. Off by 2: changes no choice; it counts on links below 130 Mbit/s only."""
LARGEST_CHUNK = 1 << 22
"""Bytes of a chunk at most, where round trips are short.

Found: by hand. Off by 2: changes no choice; it counts on links above 8 Gbit/s only."""
FARTHEST_CHUNK = 1 << 26
"""Bytes of a chunk at most, where more than `LARGEST_CHUNK` is on its way in a round trip. Every rank needs memory for
four chunks.

Found: by hand for 10 Gbit/s over 20 ms, which no network at hand has. Off by 2: changes no choice on four machines with
10 Gbit/s over 20 ms; it counts where more than 32 MiB are on their way in a round trip."""
CHUNK_PER_RANK = 1 << 14
"""Bytes of a chunk per rank at least: plans cut a chunk into about one part per rank, and each part is a message.

Found: on machine B. Twice as much took less CPU time on 1x8, but 3291 ms and not 2895 at 32 MiB. Off by 2: 2.06 times
as long at worst (twice, turned broadcast of 128 KiB on 1x8; all-reduce 1.77), 1.006 in the mean; half 1.01 at worst and
0.998 in the mean."""
CHUNKS_UNDER_WAY = 4
"""Chunks of a buffer that are under way at once.

Found: on machine B with `paceline lab`; what was compared is not recorded. Off by 2: twice as many bytes under way lost
packets (2+2+2 took up to 814 ms of 750, 1x8 3.1 to 3.5 s of 2.9)."""
FEW_CHUNKS = 32
"""Chunks of twice the length that a buffer has at least before its chunks are so long, with as many bytes under way.

Found: on machine A: 3+3+4 at 32 MiB went from 1144 ms and 0.69 s of CPU time to 1134 ms and 0.50 s. Off by 2: within
noise (2+3; 3+3+4)."""
SHORTEST_CHUNK_DIVISOR = 4
"""A divisor: in small buffers a chunk is at least this part of what it is in large ones.

Found: by hand. Off by 2: 1.70 times as long at worst (half, 128 KiB on 1x8, encoded; 1.36 plain), 1.003 in the mean;
twice changes no choice."""
WORTH_SHORTER_CHUNKS = 0.05
"""The fraction of the time that halving the chunks must save, because every chunk costs every rank CPU time.

Found: by hand. Off by 2: 1.12 times as long at worst (twice, 256 KiB on 3+3+4, encoded; 1.06 plain), 1.001 in the mean;
half 1.02 at worst and 0.998 in the mean."""
CHUNK_ROUNDS = 3
"""The most times that a chunk may take the latency of its messages while the chunks under way still keep links busy.

Found: by hand. Off by 2: changes no choice."""

# ---- What messages cost: load, cost ----

MESSAGE_SECONDS = 20e-6
"""Seconds of a rank's time for one more message between machines, whatever its size. Most of it is the wake-up of the
thread that waits for it.

Found: on machine B, where a wake-up takes some 25 us; with 20 us the predictions for 256 KiB on 1+1+1 are within 10 %
of what all five algorithms took. Off by 2: 1.24 times as long at worst (twice, 64 KiB on
3+3+4, encoded; 1.16 for 2 KiB on 1+1+1) and 1.13 (half, 2 KiB on 3+3+4), 1.001 in the mean."""
LOCAL_MESSAGE_SECONDS = 2e-6
"""Seconds of a rank's time for one more message within a machine.

Found: on machine B, together with `MESSAGE_SECONDS`. Off by 2: changes no choice."""
CROWDED_MESSAGE_SECONDS = 8e-6
"""Seconds of a CPU for a message between machines at its sender, and again at its receiver, where ranks share CPUs.

Found: on machine A. Eight ranks on two CPUs took 6.3 us where each sends and receives seven messages at a time, and 9
us one by one. Off by 2: changes no choice there, as these files do not say that machines
share CPUs."""
CROWDED_LOCAL_MESSAGE_SECONDS = LOCAL_MESSAGE_SECONDS / 2
"""Seconds of a CPU for a message within a machine, at either end.

Found: by reckoning: both ends together take no more than one more message does. Off by 2: as for
`CROWDED_MESSAGE_SECONDS`."""
HEADER_BYTES = 70
"""Bytes that a message between machines adds to its payload on every link: the packets' headers and the message's own.

Found: on machine A. On the uplink of 1+1+1, 2000 more messages of 1000 bytes added 2 139 000 bytes. Off by 2: 1.06
times as long at worst (twice, 4 KiB on 1x8); 1.23 (half) for 64 KiB on 1x8 that are encoded, as for `TIE`; 1.000 in
the mean."""
NOT_OVERLAPPED = 0.1
"""A fraction. Where a burst lets a call's messages overlap with the next call's bytes, calls in a row take the longer
of the two times plus this fraction of the shorter.

Found: on machine A. The model then predicts 143 us for 4 KiB on 2+2+3 and 183 us on 1+1+1; 139 and 177 us were
measured. Off by 2: 1.12 times as long at worst (half, 256 KiB on 3+3+4, encoded; 1.06 plain) and 1.24 (twice, 64
KiB there, encoded), 1.000 in the mean."""

# ---- Streams: streams ----

STREAMS_OF_LINK = 0.95
"""The part of a link that the payload of all its streams together may take, once packets get lost at a short queue. The
rest is for headers: Ethernet carries 1448 bytes of TCP's payload in 1538 at best, 94 %, and switches count 1514 or
1518 of them, 96 %.

Found: by reckoning; behind a policer 2+2+3 took 1.03 T* with 0.93, and 1.02 to 1.14 with 0.95, at a load of 50.
Off by 2: not measured, because half is no candidate. It makes links that drop packets half as fast until streams are
lifted, which takes seconds (`kLiftPause` of the engine), and more than a link carries makes it drop packets."""

# ---- Codecs: codecs, auto ----

ENCODE_RATE = {
    "bf16": 19.9e9,
    "fp16": 15.3e9,
    "three_in_one": 17.9e9,
    "int8": 19.6e9,
    "int4": 21.5e9,
    "lossless": 4.0e9,
}
"""Bytes of float32 that one core encodes per second, out of its cache.

Found: by `paceline bench codecs` on 64 MiB of trained weights, on a shared AMD EPYC (Zen 4) with AVX-512. `paceline
plan` uses them; ranks that choose a codec time it first, and use what the slowest of them found. Off by 2: changes no
choice."""
DECODE_RATE = {
    "bf16": 20.5e9,
    "fp16": 20.3e9,
    "three_in_one": 21.6e9,
    "int8": 22.5e9,
    "int4": 24.0e9,
    "lossless": 4.1e9,
}
"""Bytes of float32 that one core decodes per second, into memory out of its cache.

Found: together with `ENCODE_RATE`. Off by 2: as there."""
WORTH_ENCODING = 0.05
"""The fraction of its time that an all-reduce must save so that `auto` encodes it.

Found: by hand. Off by 2: changes no choice."""
