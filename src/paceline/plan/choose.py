"""Which plan serves which size, and why.

Thresholds are bytes of the whole buffer that the plan cuts up: for all-gather, all ranks' blocks together.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.plan.binomial import binomial
from paceline.plan.direct import direct
from paceline.plan.flat import flat
from paceline.plan.halving_doubling import halving_doubling
from paceline.plan.ir import Plan
from paceline.plan.ring import ring
from paceline.plan.wire import PlanEntry, to_wire

NO_LIMIT = -1
# In one shot over messages a rank overwrites its copy without knowing who has read it, so it is right only where
# every message is copied out eagerly: never above the smallest eager limit of any link (1024).
ONE_SHOT_BYTES_REMOTE = 1024
# It costs every rank n-1 messages, worth it only in small groups.
ONE_SHOT_RANKS_REMOTE = 8
# In shared memory it takes one hand-over and reads n-1 copies; measured: 64 KiB at 2 ranks, 32 KiB at 4.
ONE_SHOT_BYTES_SHARED = 128 * 1024
# What one rank can show in one shot, a limit of the engine.
ONE_SHOT_SLOT = 64 * 1024
# What only moves is sooner fetched from where it lies than copied twice; measured: 4 KiB a rank.
ONE_SHOT_MOVED = 4 * 1024
HALVING_DOUBLING_BYTES = 256 * 1024
DIRECT_ALL_GATHER_BYTES = 64 * 1024
FLAT_BROADCAST_RANKS = 4

COLLECTIVES = ("all_reduce", "all_gather", "broadcast")


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan for buffers of up to `limit` bytes (inclusive; -1: any size), and the reason in one sentence.

    one_shot: every rank shows all others what it has, once, and takes what it needs; in a reduction, each combines
    everything for itself as if it were the owner.

    chunk: a larger buffer is cut into equal chunks of at most this many bytes (at least 4096; 0: never), each served by
    the plan on its own, so that their levels overlap. All-gather is not cut.
    """

    plan: Plan
    limit: int
    reason: str
    one_shot: bool = False
    chunk: int = 0

    @property
    def name(self) -> str:
        """What traces and reports call it."""
        return "one_shot" if self.one_shot else self.plan.name


def choose(collective: str, size: int, one_machine: bool) -> tuple[Choice, ...]:
    """The choices for a group of `size` ranks, by rising limit; the last one has no limit.

    one_machine: all ranks share a memory. Raises ValueError for an unknown collective or a size below 1.
    """
    if collective not in COLLECTIVES:
        raise ValueError(f"collective is {collective!r}, but plans exist for {', '.join(COLLECTIVES)}")
    if size < 1:
        raise ValueError(f"size is {size}, but a group has at least one rank")
    if size == 1:
        return (Choice(Plan(1, "none", ()), NO_LIMIT, "A single rank has nobody to exchange anything with."),)
    if collective == "all_reduce":
        return _all_reduce_shared(size) if one_machine else _all_reduce_remote(size)
    if collective == "all_gather":
        return _all_gather(size, one_machine)
    large = _broadcast(size, one_machine)
    limit = ONE_SHOT_MOVED if size <= FLAT_BROADCAST_RANKS else ONE_SHOT_SLOT
    return (_one_shot(flat(size), limit), large) if one_machine else (large,)


def pick(collective: str, size: int, one_machine: bool, nbytes: int) -> Choice:
    """The choice that serves a buffer of `nbytes` bytes."""
    choices = choose(collective, size, one_machine)
    return next(choice for choice in choices if choice.limit == NO_LIMIT or nbytes <= choice.limit)


def plans(size: int, one_machine: bool) -> dict[str, list[PlanEntry]]:
    """Every plan that a group of `size` ranks needs, by collective, in the form that the engine takes.

    "all_reduce" is the reduce-scatter half, mirrored by the engine; in "all_gather", of the same form, rank i
    owns block i; "broadcast" is to be read backwards from rank 0. Raises ValueError for a size below 1.
    """
    # Not cached: the engine takes it over when a group is made, and a ring of 64 ranks weighs 0.5 MB.
    return {
        collective: [
            (choice.limit, choice.name, choice.one_shot, choice.chunk, to_wire(choice.plan))
            for choice in choose(collective, size, one_machine)
        ]
        for collective in COLLECTIVES
    }


def _one_shot(plan: Plan, limit: int) -> Choice:
    reason = f"Up to {limit} bytes latency decides: one hop, each of {plan.world} ranks takes what it needs."
    return Choice(plan, limit, reason, one_shot=True)


def _all_reduce_shared(size: int) -> tuple[Choice, ...]:
    reason = f"The {size} ranks share a memory: each combines its own block in one pass over all copies."
    limit = min(ONE_SHOT_SLOT, max(ONE_SHOT_BYTES_REMOTE, ONE_SHOT_BYTES_SHARED // size))
    return _one_shot(flat(size), limit), Choice(direct(size), NO_LIMIT, reason)


def _all_reduce_remote(size: int) -> tuple[Choice, ...]:
    limit = f"{HALVING_DOUBLING_BYTES // 1024} KiB"
    halving = halving_doubling(size)
    few = f"Up to {limit} latency decides, and halving-doubling takes only {2 * len(halving.levels)} steps."
    lean = f"Above {limit} bandwidth decides, and nothing sends fewer bytes per rank than a ring."
    larger = Choice(halving, HALVING_DOUBLING_BYTES, few), Choice(ring(size), NO_LIMIT, lean)
    return (_one_shot(flat(size), ONE_SHOT_BYTES_REMOTE), *larger) if size <= ONE_SHOT_RANKS_REMOTE else larger


def _all_gather(size: int, one_machine: bool) -> tuple[Choice, ...]:
    if one_machine:
        reason = f"The {size} ranks share a memory: each block is read from where it lies."
        return _one_shot(direct(size), ONE_SHOT_MOVED * size), Choice(direct(size), NO_LIMIT, reason)
    limit = f"{DIRECT_ALL_GATHER_BYTES // 1024} KiB in all"
    quick = f"Up to {limit} latency decides, and direct takes one step."
    lean = f"Above {limit} bandwidth decides, and in a ring each rank receives from one neighbour only."
    return Choice(direct(size), DIRECT_ALL_GATHER_BYTES, quick), Choice(ring(size), NO_LIMIT, lean)


def _broadcast(size: int, one_machine: bool) -> Choice:
    if one_machine and size <= FLAT_BROADCAST_RANKS:
        reason = f"Only {size} ranks, who share a memory: all read from the root at once."
        return Choice(flat(size), NO_LIMIT, reason)
    tree = binomial(size)
    steps = len(tree.levels)
    reason = f"A binomial tree takes {steps} {'step' if steps == 1 else 'steps'} to reach all {size} ranks."
    return Choice(tree, NO_LIMIT, reason)
