"""Rabenseifner's all-reduce, in which extra ranks are treated as its author treats them.

R. Rabenseifner, "Optimization of Collective Reduction Operations", International Conference on Computational
Science, 2004.

For a power of two it is what `halving_doubling` does. Otherwise, with p the largest power of two <= n, the
2 (n - p) first ranks work in pairs: the two exchange halves and combine one each, then the second gives its half to
the first and rests until the end. (`halving_doubling` lets the second give its whole buffer, and the first combine
it all: one step less, twice as long to combine.)

All-reduce of n ranks and B bytes: 2 log2(p) steps, 4 more if n > p; each of the p ranks sends 2 B (p-1)/p bytes, the
second of a pair B and its partner 3/2 B more.
"""

from __future__ import annotations

from paceline.plan.halving_doubling import halving, pairs
from paceline.plan.ir import WHOLE, Level, Plan, Reduce


def rabenseifner(world: int) -> Plan:
    """Return the plan. Ownership follows the reversed bits of the rank; the second rank of a pair owns nothing."""
    extra, ranks = pairs(world)
    low, high = WHOLE.halves()
    exchange: list[Reduce] = []
    for first, second in extra:
        exchange += Reduce(low, (first, second), first), Reduce(high, (first, second), second)
    handing_over = tuple(Reduce(high, (second,), first) for first, second in extra)
    fold: tuple[Level, ...] = (tuple(exchange), handing_over) if extra else ()
    return Plan(world, "rabenseifner", fold + halving(ranks))
