"""The memory that training takes on each rank, beyond what the process has without the model.

It holds each weight that the rank needs, its gradient and the optimizer's states, with several replicas the gradient
again in the arena; a buffer in the arena for each message that comes in a step, kept from step to step; what autograd
keeps of the microbatches that are in flight; the gradients of activations around the largest call of a backward; one
more gradient of the largest weight where several microbatches add theirs; and what a loss such as cross entropy holds.
All but the first two stand in memory that the allocator has cut up, and count by a factor. Where this would not fit,
what is freed goes back to the system at once (see `freed_memory`), which costs time, and the factor is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from paceline.calibration.torch import COMES_ALONG, KEPT_FREE, RETURNED
from paceline.torch.partitioned.budget import Budget
from paceline.torch.partitioned.cut import Chain
from paceline.torch.partitioned.predicted.orders import Action, in_flight, orders
from paceline.torch.partitioned.predicted.shape import Shape
from paceline.torch.partitioned.segments import Held, Segment, divide, held

_AROUND_A_CALL = 2
"""Results of a call's size that a backward holds at once: the gradients of what it made and of what it took."""

_LOSS = 3
"""Pieces of the result's size that the loss holds: its logarithms, their gradient, and that of the result."""


@dataclass(frozen=True)
class Memory:
    """The memory that training needs.

    segments: of each stage. nbytes: of each rank of a replica. short: whether each rank has to give memory back to the
    system as soon as it is free.
    """

    segments: tuple[tuple[Segment, ...], ...]
    nbytes: tuple[int, ...]
    short: tuple[bool, ...]


def copies(shape: Shape, states: int) -> int:
    """Return how often each weight is held: itself, its gradient, the optimizer's states, and of replicas' gradients
    what lies in the arena and what encoding has lost.
    """
    replicated = 1 + (shape.codecs.gradients is not None) if shape.layout.replicas > 1 else 0
    return 2 + replicated + states


def memory(chain: Chain, ends: Sequence[int], shape: Shape, budget: Budget) -> Memory:
    """Return what it needs if the stages end there, and as much of the activations is kept as the budget allows."""
    stages = list(pairwise([0, *ends]))
    rank_of = shape.schedule.rank_of
    segments: dict[int, tuple[Segment, ...]] = {}
    found: list[int] = []
    short: list[bool] = []
    for rank, order in enumerate(orders(shape.schedule, shape.microbatches)):
        own = {stage: stages[stage] for stage, there in enumerate(rank_of) if there == rank}
        lasting, passing = _besides(chain, stages, own, shape, budget.states)
        whole = {stage: held(chain, (Segment(begin, end, "keep"),)) for stage, (begin, end) in own.items()}
        short.append(lasting + KEPT_FREE * (passing + most_kept(order, whole)) > budget.memory)
        factor = RETURNED if short[-1] else KEPT_FREE
        room = (budget.memory - lasting) / factor - passing
        segments.update(_segments(chain, own, order, room, budget))
        kept = most_kept(order, {stage: held(chain, segments[stage]) for stage in own})
        found.append(round(lasting + factor * (passing + kept)))
    return Memory(tuple(segments[stage] for stage in range(len(stages))), tuple(found), tuple(short))


def _besides(
    chain: Chain, stages: Sequence[tuple[int, int]], own: Mapping[int, tuple[int, int]], shape: Shape, states: int
) -> tuple[float, float]:
    """The bytes that a rank with these stages needs besides kept activations: all the time, and in a step."""
    rank_of = shape.schedule.rank_of
    calls = [call for begin, end in own.values() for call in range(begin, end)]
    weights = {one.identity: one.nbytes for call in calls for one in chain.weights[call]}
    received = 0.0
    for stage, (begin, end) in own.items():
        if stage and rank_of[stage - 1] != rank_of[stage]:
            received += chain.up[begin]
        if stage + 1 < len(stages) and rank_of[stage + 1] != rank_of[stage]:
            received += chain.down[end]
    passing = _AROUND_A_CALL * max(chain.made[call] for call in calls)
    if max(own) + 1 == len(stages):
        passing += _LOSS * chain.made[-1]
    if shape.microbatches > 1:
        passing += max(weights.values(), default=0.0)
    lasting = COMES_ALONG + sum(weights.values()) * copies(shape, states) + received * shape.microbatches
    return lasting, passing


def _segments(
    chain: Chain, own: Mapping[int, tuple[int, int]], order: Sequence[Action], room: float, budget: Budget
) -> dict[int, tuple[Segment, ...]]:
    """The segments of a rank's stages, which share the room as they would need it to keep everything."""
    whole: dict[int, tuple[Segment, ...]] = {
        stage: (Segment(begin, end, "keep"),) for stage, (begin, end) in own.items()
    }
    each = {stage: held(chain, some) for stage, some in whole.items()}
    if budget.beyond == "keep" or most_kept(order, each) <= max(room, 0.0):
        return whole
    times = {stage: in_flight(order, stage) for stage in own}
    wanted = sum(times[stage] * each[stage].each for stage in own)
    return {
        stage: divide(chain, *own[stage], times[stage], room * times[stage] * each[stage].each / wanted, budget.beyond)
        for stage in own
    }


def most_kept(order: Sequence[Action], held: Mapping[int, Held]) -> float:
    """Return the most bytes of activations that a rank has at once. held: of each of its stages."""
    kept = most = 0.0
    split = {(action.stage, action.microbatch) for action in order if action.kind == "W"}
    for action in order:
        each, more = held[action.stage]
        kept += each if action.kind == "F" else 0.0
        most = max(most, kept + (0.0 if action.kind == "F" else more))
        if action.kind == "W" or (action.kind == "B" and (action.stage, action.microbatch) not in split):
            kept -= each
    return most
