"""Choose which plan serves which size, and say why.

Thresholds are bytes of the whole buffer that the plan cuts up; for an all-gather these are all ranks' blocks together.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.calibration import plan as fitted
from paceline.plan.binomial import binomial
from paceline.plan.choice import NO_LIMIT, Choice, serving
from paceline.plan.direct import direct
from paceline.plan.flat import flat
from paceline.plan.ir import Plan
from paceline.topology import Topology

ONE_SHOT_SLOT = 64 * 1024
"""Bytes that one rank can contribute in one shot at most, a limit of the engine."""

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "turned_broadcast")
"""The last is a broadcast from a rank other than 0, along the tree of rank 0 with its edges turned. Where there is no
choice for it, the broadcast's own plan is used with ranks numbered from the root."""


def choose(
    collective: str, topology: Topology, ranks: Sequence[int] | None = None, algorithm: str | None = None
) -> tuple[Choice, ...]:
    """Return the choices for a group on `topology`, by rising limit; the last one has no limit.

    The result is empty for a turned broadcast on one machine, where all ranks are alike. Ranks of one machine share
    memory.

    collective: one of `COLLECTIVES`. ranks: `ranks[i]` is the rank of the group at place i of the topology; None stands
    for rank i at place i. algorithm: the name of the all-reduce to use between machines, for all sizes.
    Raises ValueError for an unknown collective or algorithm.
    """
    if collective not in COLLECTIVES:
        raise ValueError(f"collective is {collective!r}, but plans exist for {', '.join(COLLECTIVES)}")
    size = topology.world
    if size == 1:
        return (Choice(Plan(1, "none", ()), NO_LIMIT, "A single rank has nobody to exchange anything with."),)
    if sum(len(here) > 0 for _, here in topology.machines()) == 1:
        return _on_one_machine(collective, size)
    from paceline.plan import between

    places = range(size) if ranks is None else ranks
    if collective == "all_reduce":
        return between.all_reduce(topology, places, algorithm)
    planner = {
        "all_gather": between.all_gather,
        "broadcast": between.broadcast,
        "turned_broadcast": between.turned_broadcast,
    }[collective]
    return planner(topology, places)


def pick(collective: str, topology: Topology, nbytes: int) -> Choice:
    """Return the choice that serves a buffer of `nbytes` bytes. Raises ValueError for an unknown collective."""
    return serving(choose(collective, topology), nbytes)


def _on_one_machine(collective: str, size: int) -> tuple[Choice, ...]:
    if collective == "all_reduce":
        reason = f"The {size} ranks share memory: each combines its own block in one pass over all copies."
        limit = min(ONE_SHOT_SLOT, max(fitted.ONE_SHOT_LEAST, fitted.ONE_SHOT_BYTES_SHARED // size))
        return _one_shot(flat(size), limit), Choice(direct(size), NO_LIMIT, reason)
    if collective == "all_gather":
        reason = f"The {size} ranks share memory: each block is read from where it lies."
        return _one_shot(direct(size), fitted.ONE_SHOT_MOVED * size), Choice(direct(size), NO_LIMIT, reason)
    if collective == "turned_broadcast":
        return ()
    limit = fitted.ONE_SHOT_MOVED if size <= fitted.FLAT_BROADCAST_RANKS else ONE_SHOT_SLOT
    return _one_shot(flat(size), limit), _broadcast(size)


def _one_shot(plan: Plan, limit: int) -> Choice:
    reason = f"Up to {limit} bytes latency decides: one hop, each of {plan.world} ranks takes what it needs."
    return Choice(plan, limit, reason, one_shot=True)


def _broadcast(size: int) -> Choice:
    if size <= fitted.FLAT_BROADCAST_RANKS:
        reason = f"Only {size} ranks share this memory: all read from the root at once."
        return Choice(flat(size), NO_LIMIT, reason)
    tree = binomial(size)
    steps = len(tree.levels)
    reason = f"A binomial tree takes {steps} {'step' if steps == 1 else 'steps'} to reach all {size} ranks."
    return Choice(tree, NO_LIMIT, reason)
