"""The memory that training takes on each rank, beyond what the process has without the model.

It holds each weight that the rank needs, its gradient and the optimizer's states, with several replicas the gradient
again in the arena; a buffer for each message that comes in a step, which torch keeps from step to step; what autograd
keeps of the microbatches that are in flight; the gradients of activations around the largest call of a backward; one
more gradient of the largest weight where several microbatches add theirs; and what a loss such as cross entropy holds.
All but the first two stand in memory that the allocator has cut up, and count by a factor.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.calibration.torch import KEPT_FREE
from paceline.torch.partitioned.cut import Chain
from paceline.torch.partitioned.predicted.orders import Action, orders
from paceline.torch.partitioned.predicted.shape import Shape

STATES = 2
"""States of the optimizer for each weight, as many as Adam has, where nothing else is said."""
_AROUND_A_CALL = 2
"""Results of a call's size that a backward holds at once: the gradients of what it made and of what it took."""

_LOSS = 3
"""Pieces of the result's size that the loss holds: its logarithms, their gradient, and that of the result."""


def copies(shape: Shape, states: int = STATES) -> int:
    """Return how often each weight is held: itself, its gradient, in the arena for the replicas, the optimizer's."""
    return 2 + (shape.layout.replicas > 1) + states


def memory(chain: Chain, ends: Sequence[int], shape: Shape, states: int = STATES) -> tuple[int, ...]:
    """Return the bytes of each rank of a replica. ends: where each stage ends. states: of the optimizer, per weight."""
    stages = list(zip([0, *ends[:-1]], ends, strict=True))
    rank_of = shape.schedule.rank_of
    found = []
    for rank, order in enumerate(orders(shape.schedule, shape.microbatches)):
        own = [stage for stage, there in enumerate(rank_of) if there == rank]
        calls = [call for stage in own for call in range(*stages[stage])]
        weights = {one.identity: one.nbytes for call in calls for one in chain.weights[call]}
        received = 0.0
        for stage in own:
            begin, end = stages[stage]
            if stage and rank_of[stage - 1] != rank:
                received += chain.up[begin]
            if stage + 1 < len(stages) and rank_of[stage + 1] != rank:
                received += chain.down[end]
        saved = {stage: float(sum(chain.saved[slice(*stages[stage])])) for stage in own}
        around = max(chain.made[call] for call in calls)
        passing = most_kept(order, saved) + _AROUND_A_CALL * around
        if max(own) + 1 == len(stages):
            passing += _LOSS * chain.made[-1]
        if shape.microbatches > 1:
            passing += max(weights.values(), default=0.0)
        lasting = sum(weights.values()) * copies(shape, states) + received * shape.microbatches
        found.append(round(lasting + KEPT_FREE * passing))
    return tuple(found)


def most_kept(order: Sequence[Action], saved: dict[int, float]) -> float:
    """Return the most bytes of activations that a rank keeps at once. saved: those of a microbatch in each stage."""
    kept = most = 0.0
    split = {(action.stage, action.microbatch) for action in order if action.kind == "W"}
    for action in order:
        if action.kind == "F":
            kept += saved[action.stage]
            most = max(most, kept)
        elif action.kind == "W" or (action.stage, action.microbatch) not in split:
            kept -= saved[action.stage]
    return most
