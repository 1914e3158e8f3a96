"""Two binary trees, each with half of the buffer; a rank that combines in one of them only sends in the other.

P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
Parallel Computing 35(12), 2009.

The first tree numbers its nodes in order, so that leaves are the places 0, 2, 4, ... The second one is its mirror
image, or for an odd number of ranks the first moved on by one place: a rank at an inner place of one tree is at a
leaf of the other. All-reduce of n ranks and B bytes: 2 ceil(log2(n+1)) - 2 steps; no rank sends or receives more
than 2 B bytes, and chunk after chunk keeps all ranks busy.
"""

from __future__ import annotations

from paceline.plan.ir import WHOLE, Plan, Range, Reduce


def double_tree(world: int) -> Plan:
    """Return the plan after which the roots of the two trees own half of the buffer each."""
    last = world - 1
    second = [(place - 1) % world for place in range(world)] if world % 2 else [last - place for place in range(world)]
    levels: dict[int, list[Reduce]] = {}
    for half, ranks in zip(WHOLE.halves(), (list(range(world)), second), strict=True):
        _reduce(half, ranks, 0, world, levels)
    return Plan(world, "double_tree", tuple(tuple(levels[height]) for height in sorted(levels)))


def _reduce(part: Range, ranks: list[int], low: int, high: int, levels: dict[int, list[Reduce]]) -> tuple[int, int]:
    """Add the Reduces of the tree over the places [low, high); return the rank at its root and its height."""
    root = _root(low, high)
    below = [_reduce(part, ranks, *ends, levels) for ends in ((low, root), (root + 1, high)) if ends[0] < ends[1]]
    if not below:
        return ranks[root], 0
    height = 1 + max(depth for _, depth in below)
    holders = tuple(sorted((ranks[root], *(rank for rank, _ in below))))
    levels.setdefault(height, []).append(Reduce(part, holders, ranks[root]))
    return ranks[root], height


def _root(low: int, high: int) -> int:
    """The place p in [low, high) for which p + 1 has most factors of two."""
    bit = 1
    while (high // (2 * bit)) * 2 * bit > low:
        bit *= 2
    return high // bit * bit - 1
