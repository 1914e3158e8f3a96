"""The constants of `paceline.coordinate`: how a running job tries batch sizes and policies.

All were set by hand on machine B. With them, 1200 simulated jobs were slower by 2 % at most for having been tuned, and
four real ones took 0.86 to 0.99 of the time of plain ones.

What it costs to be wrong was found by `studies/decision_sensitivity.py`: 1200 simulated jobs with 1 to 2 % of noise,
and as many with 10 to 20 %, which are called noisy. With the constants as they are, 95 of 100 jobs come to a size
within 3 % of the best, in 164 steps, and 61 of 100 noisy ones, in 143; none is slower than before by more than 1 %.
Their first 1000 steps take 1.052 and 1.083 times as long as with the best size from the start. One of 100 more or less
is chance.
"""

WARM_UP_STEPS = 5
"""Steps, alike and in a row, before the first turn. Off by 2: as many steps, and no other choices
beyond chance."""
COUNTED_STEPS, MOST_COUNTED_STEPS = 3, 10
"""Steps of a turn, after those that are not counted, in which the choice changed: the fewest, and the most where steps
are short. Off by 2: half (2) of the first makes 90 jobs of 100 come near the best size, twice takes 243 steps for 94;
half of the second takes 150 steps, twice changes nothing."""
TURN_SECONDS = 0.05
"""Seconds that the counted steps of a turn should take. Off by 2: 140 steps, or 197, and no other choices beyond
chance."""
ROUNDS = 8
"""Rounds in which every choice that is left has a turn. Off by 2: half takes 92 steps, for 94 jobs of 100 and for 71
noisy ones, of which one in 100 is then slower by more than 1 %, as none must be; twice takes 304 steps for 94 jobs of
100, and the first 1000 steps take 1.059 times the best's."""
FIRST_LOOK = 2
"""Rounds after which a choice that was never better goes out. Off by 2: 147 steps (half), or 182, and no other choices
beyond chance; with half one noisy job in 1200 is slower by more than 1 %."""
MUCH_WORSE = 1.2
"""A ratio to the present choice's time with which another goes out in its first round. Off by 2: 1.1 and 1.4 take as
many steps, and make no other choices beyond chance; with 1.1 one noisy job in 1200 is slower by more than 1 %."""
BETTER = 0.97
"""A ratio to the present choice's time below which another is worth it, if it was better in all rounds but one.
Off by 2: 0.94 makes 80 jobs of 100 come near the best size; with 0.985 it is 99, whose first 1000 steps take 1.049 and
not 1.052 times the best's, but steps of equal choices of real jobs differed by 1 to 2 %."""
UNLIKE_STEPS = 20
"""Steps of other requests than usual after which tuning is given up. Off by 2: 94 jobs of 100 come near the best size,
or 96, where a fourth of the jobs have one such step in 10 to 100; a job whose steps are never alike pays for as many
steps."""
GRAPH_BYTES = 16 << 20
"""Bytes of a buffer of policy `graph` at most: none goes before it is full. Off by 2: steps of four simulated networks
on four machines take 0.98 (half) and 1.08 times as long in the mean with links of 1 Gbit/s, most of it with GoogLeNet,
which has 25 MiB in all: 0.93 and 1.36 times; 1.00 and 1.03 with 10 Gbit/s."""
ADASUM_GATHERED_BYTES = 1 << 19
"""Bytes of all ranks' gradients of one tensor up to which Adasum gathers them on every rank, in a single step.

Off by 2: by counting, a tensor at the bound brings each of 8 ranks 448 KiB in one step, and an exchange would bring it
112 KiB in ten, on each of which the ranks agree. Half takes ten steps for tensors of half the size too; twice brings a
rank up to 672 KiB more."""
