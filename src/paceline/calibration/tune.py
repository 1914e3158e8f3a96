"""The constants of `paceline.tune`: how a setting is measured, and which are worth another run."""

# ---- What of a run is measured: trial ----

WARM_UP_STEPS = 3
"""Steps that are dropped: in the first ones frameworks allocate memory, compile, and arrange gradients in buckets.

Found: by hand. Off by 2: not measured."""
WARM_UP_SECONDS = 0.5
"""Seconds, from the first step on, whose steps are dropped too: batches that were read in advance are used up then.

Found: by hand. Off by 2: not measured; input workers that read far ahead need more."""
LEAST_STEPS = 6
"""The fewest steps that are measured, unless they take SLOW times as long as was asked for.

Found: by hand. Off by 2: not measured."""
SLOW = 5
"""Times the seconds of a measurement, after which LEAST_SLOW_STEPS have to do.

Found: by hand. Off by 2: not measured; a setting that is so slow is rarely the fastest."""
LEAST_SLOW_STEPS = 2
"""The fewest steps of which a run tells anything.

Found: by hand. Off by 2: not measured."""
BLOCKS = 5
"""The most blocks into which the steps of a run are divided; each has a rate of its own.

Found: by hand. Off by 2: not measured."""
FIRST_SHARE = 0.25
"""The share of a measurement that the first run of a setting takes: it only has to tell what is slow, and starting the
processes takes longer than that.

Found: by hand. Off by 2: not measured."""

# ---- How many runs there are: halving ----

ETA = 3
"""One of so many settings goes on to the next rung.

Found: by hand; with 5 % of noise between runs and random speeds, on 2 to 48 CPUs, the search finds a setting within 3 %
of the best in 93 of 100 cases or more. Off by 2: not measured."""
FINAL_RUNS = 3
"""The fewest runs of a setting that reaches the last rung; fewer show no difference between runs.

Found: by hand. Off by 2: not measured."""
MOST_REPEATS = 4
"""The most runs of a setting in one rung: with few rivals left, an equal share of the budget is more than it takes.

Found: by hand. Off by 2: not measured."""

# ---- What counts as a difference: choice ----

TIE = 0.03
"""The share by which throughputs may differ, if their intervals overlap, and count as equal.

Found: by hand. Off by 2: not measured."""
CLEAR_RUNS = 2
"""Runs of each setting from which on one can be faster beyond doubt: one run does not show what runs differ by.

Found: by hand. Off by 2: not measured."""
