"""The time of a partitioned model's step, and the needs of each rank, before any rank has trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.calibration.torch import COMES_ALONG, KEPT_FREE, RETURNED
from paceline.formats.sizes import show_bytes
from paceline.topology.discover import Placement
from paceline.torch.partitioned.budget import Budget
from paceline.torch.partitioned.cut import CannotCut, Chain, Limits, cut
from paceline.torch.partitioned.predicted.exchange import exchanged
from paceline.torch.partitioned.predicted.memory import copies, memory
from paceline.torch.partitioned.predicted.orders import Action, in_flight, orders
from paceline.torch.partitioned.predicted.shape import Shape
from paceline.torch.partitioned.predicted.speeds import Speeds
from paceline.torch.partitioned.predicted.timeline import Timeline, timeline
from paceline.torch.partitioned.segments import Segment


@dataclass(frozen=True)
class Stage:
    """A stage as it is predicted, for one microbatch.

    partition: that has it. segments: what becomes of its activations. forward, backward: seconds. restored: seconds of
    each backward more, in which activations that are not kept are computed again, or read. received, returned: bytes
    that come from the stage before it and, as gradients, from the one behind. weights: bytes of the weights that it
    needs. kept: the share of its activations that is kept in memory.
    """

    partition: int
    segments: tuple[Segment, ...]
    forward: float
    backward: float
    restored: float
    received: float
    returned: float
    weights: float
    kept: float

    @property
    def end(self) -> int:
        """The call behind its last one."""
        return self.segments[-1].end


@dataclass(frozen=True)
class Prediction:
    """A step of a shape.

    steps: when each partition does what. exchanged: seconds after which each partition's gradients are whole. updates:
    seconds that each partition's optimizer then takes. memory: bytes that each partition's rank needs beyond what its
    process has without the model. short: whether it has to give memory back to the system as soon as it is free.
    """

    shape: Shape
    stages: tuple[Stage, ...]
    steps: Timeline
    exchanged: tuple[float, ...]
    updates: tuple[float, ...]
    memory: tuple[int, ...]
    short: tuple[bool, ...]

    @property
    def seconds(self) -> float:
        """Seconds of a step with the optimizer's, without the loss."""
        return max(ready + update for ready, update in zip(self.exchanged, self.updates, strict=True))

    @property
    def until_exchanged(self) -> float:
        """Seconds until all gradients are whole, and the optimizer begins."""
        return max(self.exchanged)

    @property
    def ends(self) -> list[int]:
        """The call behind the last one of each stage."""
        return [stage.end for stage in self.stages]


def best_ends(chain: Chain, shape: Shape, placement: Placement, budget: Budget) -> list[int]:
    """Return where each stage ends if the slowest is to be fastest.

    chain: of a microbatch of the shape's size. placement: of the job's ranks in the network. Raises CannotCut.
    """
    rank_of = shape.schedule.rank_of
    order = orders(shape.schedule, shape.microbatches)
    kept = [RETURNED * in_flight(order[rank], stage) for stage, rank in enumerate(rank_of)]
    each = (budget.memory - COMES_ALONG) * shape.schedule.ranks / shape.schedule.stages
    instead = budget.instead(chain.returning())  # where memory is short
    limits = Limits(each, kept, copies(shape, budget.states), instead, KEPT_FREE / RETURNED)
    channels = shape.layout.channels(rank_of, placement, shape.codecs.of_cuts)
    has = show_bytes(round(budget.memory)) if math.isfinite(budget.memory) else "any memory"
    try:
        ends = cut(chain, channels, limits)
    except CannotCut as error:
        if error.most:
            raise
        along = show_bytes(COMES_ALONG)
        raise CannotCut(
            f"{error}: each rank has {has}, of which {along} go to what comes along with any model", 0
        ) from None
    needed = max(memory(chain, ends, shape, budget).nbytes)
    if needed > budget.memory:
        raise CannotCut(f"a rank would need {show_bytes(needed)}, and has {has}", 0)
    return ends


def predict(chain: Chain, shape: Shape, placement: Placement, ends: Sequence[int], budget: Budget) -> Prediction:
    """Return what a step takes and needs if the stages end there; arguments are those of `best_ends`."""
    rank_of = shape.schedule.rank_of
    channels = shape.layout.channels(rank_of, placement, shape.codecs.of_cuts)
    needed = memory(chain, ends, shape, budget)
    slower = chain.returning()
    stages = tuple(
        _stage(slower if needed.short[partition] else chain, partition, segments, budget)
        for partition, segments in zip(rank_of, needed.segments, strict=True)
    )

    def takes(action: Action) -> float:
        stage = stages[action.stage]
        if action.kind == "F":
            return stage.forward
        share = 1.0 if action.kind == "B" else 0.5  # nothing is known of its two halves
        return stage.backward * share + stage.restored

    def arrives(action: Action) -> float:
        stage = stages[action.stage]
        if action.kind == "F":
            return float(channels[action.stage - 1].seconds(np.array(stage.received)))
        return float(channels[action.stage].seconds(np.array(stage.returned)))

    speeds = Speeds(shape.layout, placement)
    steps = timeline(orders(shape.schedule, shape.microbatches), rank_of, takes, arrives, speeds)
    whole = exchanged(chain, ends, shape, placement, steps)
    updates = tuple(
        budget.update.seconds(
            weight
            for stage in stages
            if stage.partition == partition
            for call in chain.weights[stage.segments[0].begin : stage.end]
            for weight in call
        )
        / speeds([partition])[partition]
        for partition in range(shape.schedule.ranks)
    )
    return Prediction(shape, stages, steps, whole, updates, needed.nbytes, needed.short)


def _stage(chain: Chain, partition: int, segments: tuple[Segment, ...], budget: Budget) -> Stage:
    begin, end = segments[0].begin, segments[-1].end
    weights = {one.identity: one.nbytes for call in chain.weights[begin:end] for one in call}
    forward, saved = sum(chain.forward[begin:end]), sum(chain.saved[begin:end])
    again = sum(sum(chain.forward[one.begin : one.end]) for one in segments if one.activations == "recompute")
    filed = sum(sum(chain.saved[one.begin : one.end]) for one in segments if one.activations == "file")
    kept = sum(sum(chain.saved[one.begin : one.end]) for one in segments if one.activations == "keep")
    return Stage(
        partition,
        segments,
        forward + filed * budget.file_seconds,
        sum(chain.backward[begin:end]),
        again + filed * budget.file_seconds,
        chain.up[begin] if begin else 0.0,
        0.0 if end == len(chain.forward) else chain.down[end],
        sum(weights.values()),
        kept / saved if saved else 1.0,
    )
