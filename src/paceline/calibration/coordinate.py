"""The constants of `paceline.coordinate`: how a running job tries batch sizes and policies.

All were set by hand on machine B. With them, 1200 simulated jobs were slower by 2 % at most for having been tuned, and
four real ones took 0.86 to 0.99 of the time of plain ones.
"""

WARM_UP_STEPS = 5
"""Steps, alike and in a row, before the first turn. Off by 2: as many steps."""
COUNTED_STEPS, MOST_COUNTED_STEPS = 3, 10
"""Steps of a turn, after those that are not counted, in which the choice changed: the fewest, and the most where steps
are short. Off by 2: not measured."""
TURN_SECONDS = 0.05
"""Seconds that the counted steps of a turn should take. Off by 2: not measured."""
ROUNDS = 8
"""Rounds in which every choice that is left has a turn. Off by 2: as many steps."""
FIRST_LOOK = 2
"""Rounds after which a choice that was never better goes out. Off by 2: not measured."""
MUCH_WORSE = 1.2
"""A ratio to the present choice's time with which another goes out in its first round. Off by 2: not measured."""
BETTER = 0.97
"""A ratio to the present choice's time below which another is worth it, if it was better in all rounds but one.
Off by 2: not measured; steps of equal choices differed by 1 to 2 %."""
UNLIKE_STEPS = 20
"""Steps of other requests than usual after which tuning is given up. Off by 2: not measured."""
GRAPH_BYTES = 16 << 20
"""Bytes of a buffer of policy `graph` at most: none goes before it is full. Off by 2: not measured."""
ADASUM_GATHERED_BYTES = 1 << 19
"""Bytes of all ranks' gradients of one tensor up to which Adasum gathers them on every rank, in a single step.

Off by 2: not measured."""
