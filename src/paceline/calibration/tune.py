"""The constants of `paceline.tune`: how a setting is measured, and which are worth another run.

What it costs to be wrong was found by `studies/decision_sensitivity.py search`, in 160 simulated searches on 2 to 16
CPUs. With the constants as they are, 83 of 100 find a setting within 3 % of the best, what they choose is 0.986 times
as fast as the best in the mean, and a search takes 27 runs and 210 s. Three of 100 more or less are chance.
"""

# ---- What of a run is measured: trial ----

WARM_UP_STEPS = 3
"""Steps that are dropped: in the first ones frameworks allocate memory, compile, and arrange gradients in buckets.

Found: by hand. Off by 2: 84 searches of 100 (half), or 81, and 204 or 222 s."""
WARM_UP_SECONDS = 0.5
"""Seconds, from the first step on, whose steps are dropped too: batches that were read in advance are used up then.

Found: by hand. Off by 2: the same choices but for chance, and 213 or 214 s; input workers that read farther ahead than
16 steps need more."""
LEAST_STEPS = 6
"""The fewest steps that are measured, unless they take SLOW times as long as was asked for.

Found: by hand. Off by 2: 82 searches of 100 (half), or 78, which is hardly beyond chance, and 204 or 218 s."""
SLOW = 5
"""Times the seconds of a measurement, after which LEAST_SLOW_STEPS have to do.

Found: by hand. Off by 2: the same choices but for chance, and 205 or 212 s; a setting that is so slow is rarely the
fastest."""
LEAST_SLOW_STEPS = 2
"""The fewest steps of which a run tells anything.

Found: by hand. Off by 2: changes no choice, and less than 1 s."""
BLOCKS = 5
"""The most blocks into which the steps of a run are divided; each has a rate of its own.

Found: by hand. Off by 2: the same choices but for chance."""
FIRST_SHARE = 0.25
"""The share of a measurement that the first run of a setting takes: it only has to tell what is slow, and starting the
processes takes longer than that.

Found: by hand. Off by 2: 80 searches of 100 (half), or 84, and 207 or 215 s, where a start takes 3 s."""

# ---- How many runs there are: halving ----

ETA = 3
"""One of so many settings goes on to the next rung.

Found: by hand; with 5 % of noise between runs and random speeds, on 2 to 48 CPUs, the search finds a setting within 3 %
of the best in 93 of 100 cases or more. Off by 2: 86 searches of 100, 38 runs and 292 s with 2, which is the least that
there can be; 81 of 100, 22 runs and 176 s with twice."""
FINAL_RUNS = 3
"""The fewest runs of a setting that reaches the last rung; fewer show no difference between runs.

Found: by hand. Off by 2: half changes nothing, because so many runs are made for other reasons; twice takes 217 s for
the same choices but for chance."""
MOST_REPEATS = 4
"""The most runs of a setting in one rung: with few rivals left, an equal share of the budget is more than it takes.

Found: by hand. Off by 2: 81 searches of 100 and 183 s (half), or 82 and 230 s."""

# ---- What counts as a difference: choice ----

TIE = 0.03
"""The share by which throughputs may differ, if their intervals overlap, and count as equal.

Found: by hand. Off by 2: 83 searches of 100 (half), or 77, which then choose what demands less in its place."""
CLEAR_RUNS = 2
"""Runs of each setting from which on one can be faster beyond doubt: one run does not show what runs differ by.

Found: by hand. Off by 2: the same choices but for chance, and 202 s (half), or 219."""
