"""The constants of `paceline.cpu`."""

SPIN_US = 100.0
"""Microseconds for which a rank that has a CPU of its own spins while it waits. That pays as long as it is shorter than
a few wake-ups.

Found: by hand on machine B, where a wake-up between two cores takes 28 us. Off by 2: by reckoning, a wait takes at most
4.6 times the CPU time of a wake-up, 2.8 times with half and 8.1 with twice; waits of 50 to 100 us take 28 us longer
with half, and those of 100 to 200 us as much less with twice."""
INPUT_SHARE = 4
"""A divisor: a fourth of the cores beside the engine's go to input workers.

Found: by hand. Off by 2: by counting, input has 1, 1 and 3 cores of 4, 8 and 16; it has 1, 3 and 7 with half, and 1
each with twice. What that costs depends on how much work reading is."""
SEPARATE_INPUT = 4
"""Cores of a rank from which on input workers have some of their own.

Found: by hand. Off by 2: by counting, half takes one of two cores of compute from ranks with three cores, and the last
one from ranks with two; twice gives compute one more core of four to seven, and lets input workers share the
engine's."""
