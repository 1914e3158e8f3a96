"""The constants of `paceline.rendezvous`: how the streams between machines are set up."""

LONG_WAY_SECONDS = 0.010
"""Seconds of a round trip, from which on a connection is long and uses BBR where that is the system's default.

Found: by hand; BBR held streams of collectives for up to 76 ms over short ways on machine A, and CUBIC suffers from
every random loss over long ones. Off by 2: counts for round trips of 5 to 20 ms where BBR is the default: half lets BBR
hold streams of 5 to 10 ms, for up to 76 ms as above; twice has CUBIC suffer from random losses over 10 to 20 ms."""
SOONEST_RESEND_US = 20_000
"""Microseconds beyond the round trip after which lost packets are sent again over short ways. Kernels have 4 or 10 ms
between the ticks of their clock, and a receiver whose CPU is busy may be late by a few: this is well above both, and
well below the kernel's 200 ms.

Found: by hand on machine A; 1+1+1 with queues of 2 ms went from 2.0 to 1.06 times the bound T*. Off by 2: 8 ms were no
better in the one run that compared them; with twice each packet that is lost at the end of a turn costs a round trip
and 40 ms, and not 20."""
LATEST_ANSWER_US = 10_000
"""Microseconds until a packet that nothing follows is acknowledged: before it would be sent again.

Found: as half of `SOONEST_RESEND_US`. Off by 2: at twice as much, packets that arrived are sent again."""
KEPT_ALIVE_AFTER_SECONDS, KEPT_ALIVE_EVERY_SECONDS, KEPT_ALIVE_TRIES = 60, 10, 6
"""A connection on which nothing has come for so many seconds is tried by the kernel, every so many seconds, and is lost
after so many tries without an answer: 2 minutes in all. Firewalls and load balancers forget connections that are idle
for 4 minutes or more (Azure's 240 s, AWS's 350 s are short ones), and the kernel of a peer whose process is stopped or
busy answers all the same.

What is sent and not acknowledged has no limit here (TCP_USER_TIMEOUT): that would also end connections whose reader
takes its time with a full buffer. A collective that waits for it has its own timeout.

Found: by hand. Off by 2: with half, idle jobs send twice as many probes, of 66 bytes; with twice, a lost peer is
noticed after 4 minutes, and the shortest of the firewalls above has nearly forgotten."""
