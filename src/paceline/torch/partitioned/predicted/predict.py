"""What a step of a partitioned model takes, and what each rank needs, before any rank has trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.calibration.torch import KEPT_FREE
from paceline.formats.sizes import show_bytes
from paceline.topology.discover import Placement
from paceline.torch.partitioned.cut import CannotCut, Chain, Limits, cut
from paceline.torch.partitioned.predicted.exchange import exchanged
from paceline.torch.partitioned.predicted.memory import STATES, copies, memory
from paceline.torch.partitioned.predicted.orders import Action, in_flight, orders
from paceline.torch.partitioned.predicted.shape import Shape
from paceline.torch.partitioned.predicted.timeline import Timeline, timeline


@dataclass(frozen=True)
class Stage:
    """A stage as it is predicted, for one microbatch.

    partition: that has it. begin, end: its calls. forward, backward: seconds. received, returned: bytes that come from
    the stage before it and, as gradients, from the one behind. weights: bytes of the weights that it needs.
    """

    partition: int
    begin: int
    end: int
    forward: float
    backward: float
    received: float
    returned: float
    weights: float


@dataclass(frozen=True)
class Prediction:
    """A step of a shape.

    steps: when each partition does what. exchanged: seconds after which each partition's gradients are whole. memory:
    bytes that each partition's rank needs beyond what its process has without the model.
    """

    shape: Shape
    stages: tuple[Stage, ...]
    steps: Timeline
    exchanged: tuple[float, ...]
    memory: tuple[int, ...]

    @property
    def seconds(self) -> float:
        """Seconds of a step, without the loss and the optimizer."""
        return max(self.steps.seconds, *self.exchanged)

    @property
    def ends(self) -> list[int]:
        """The call behind the last one of each stage."""
        return [stage.end for stage in self.stages]


def best_ends(chain: Chain, shape: Shape, placement: Placement, available: float, states: int = STATES) -> list[int]:
    """Return where each stage ends if the slowest is to be fastest.

    chain: of a microbatch of the shape's size. placement: of the job's ranks in the network. available: bytes that each
    rank may use for training. states: the optimizer's, per weight. Raises CannotCut.
    """
    rank_of = shape.schedule.rank_of
    order = orders(shape.schedule, shape.microbatches)
    kept = [KEPT_FREE * in_flight(order[rank], stage) for stage, rank in enumerate(rank_of)]
    each = available * shape.schedule.ranks / shape.schedule.stages
    ends = cut(chain, shape.layout.channels(rank_of, placement), Limits(each, kept, copies(shape, states)))
    needed = max(memory(chain, ends, shape, states))
    if needed > available:
        raise CannotCut(f"a rank would need {show_bytes(needed)}, and has {show_bytes(round(available))}", 0)
    return ends


def predict(chain: Chain, shape: Shape, placement: Placement, ends: Sequence[int], states: int = STATES) -> Prediction:
    """Return what a step takes and needs if the stages end there; arguments are those of `best_ends`."""
    rank_of = shape.schedule.rank_of
    channels = shape.layout.channels(rank_of, placement)
    bounds = zip([0, *ends[:-1]], ends, strict=True)
    stages = tuple(_stage(chain, rank_of[number], begin, end) for number, (begin, end) in enumerate(bounds))

    def takes(action: Action) -> float:
        stage = stages[action.stage]
        if action.kind == "F":
            return stage.forward
        return stage.backward if action.kind == "B" else stage.backward / 2  # nothing is known of its two halves

    def arrives(action: Action) -> float:
        stage = stages[action.stage]
        if action.kind == "F":
            return float(channels[action.stage - 1].seconds(np.array(stage.received)))
        return float(channels[action.stage].seconds(np.array(stage.returned)))

    steps = timeline(orders(shape.schedule, shape.microbatches), rank_of, takes, arrives)
    whole = exchanged(chain, ends, shape, placement, steps)
    return Prediction(shape, stages, steps, whole, memory(chain, ends, shape, states))


def _stage(chain: Chain, partition: int, begin: int, end: int) -> Stage:
    weights = {one.identity: one.nbytes for call in chain.weights[begin:end] for one in call}
    last = end == len(chain.forward)
    return Stage(
        partition,
        begin,
        end,
        sum(chain.forward[begin:end]),
        sum(chain.backward[begin:end]),
        chain.up[begin] if begin else 0.0,
        0.0 if last else chain.down[end],
        sum(weights.values()),
    )
