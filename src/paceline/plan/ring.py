"""Ring reduce-scatter: each block travels once around the ring and is combined with a copy at every stop.

P. Patarasuk, X. Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations", Journal of
Parallel and Distributed Computing 69(2), 2009.

An all-reduce of n ranks and B bytes takes 2 (n-1) steps; each rank sends 2 B (n-1)/n bytes, always to its right
neighbour in the reduce-scatter and to its left one in the all-gather. No all-reduce sends less per rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from paceline.plan.ir import Level, Plan, Range, Reduce, block
from paceline.plan.outline import Outline, Step


def ring(world: int) -> Plan:
    """Return the plan after which rank i owns `[i/n, (i+1)/n)`; it also serves reduce-scatter and all-gather."""
    return Plan(world, "ring", tuple(ring_levels(range(world))))


def ring_levels(ranks: Sequence[int]) -> Iterator[Level]:
    """Yield the levels of a ring of n `ranks` in that order; `ranks[i]` ends as the owner of `[i/n, (i+1)/n)`."""
    return _levels(ranks, [block(index, len(ranks)) for index in range(len(ranks))])


def ring_of_blocks(ranks: Sequence[int]) -> Plan:
    """Return a ring in the order of `ranks`, a permutation of 0 .. n-1, after which rank i owns `[i/n, (i+1)/n)`."""
    return Plan(len(ranks), "ring", tuple(_levels(ranks, [block(rank, len(ranks)) for rank in ranks])))


def _levels(ranks: Sequence[int], blocks: Sequence[Range]) -> Iterator[Level]:
    size = len(ranks)
    # The pair of neighbours between which a block moves when it comes to a rank; made once, shared by all levels.
    pairs = [tuple(sorted((ranks[stop - 1], ranks[stop]))) for stop in range(size)]
    for step in range(size - 1):
        # Block i sets out from rank i+1, so that its last stop is rank i.
        stops = [(index + 2 + step) % size for index in range(size)]
        yield tuple(Reduce(blocks[index], pairs[stop], ranks[stop]) for index, stop in enumerate(stops))


def ring_outline(world: int) -> Outline:
    """Return the outline of `ring`: in every level each rank sends one block to its right neighbour."""
    return Outline(world, "ring", ring_steps(range(world)))


def ring_steps(ranks: Sequence[int]) -> tuple[Step, ...]:
    """Return the levels of `ring_levels` as one step, since they all load the network alike."""
    return tuple(Step(level, len(ranks) - 1) for level in islice(ring_levels(ranks), 1))
