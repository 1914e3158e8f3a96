"""The order in which each rank of a pipeline does the forwards and backwards of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, cast

from torch import nn

from paceline.torch.partitioned.schedule import Schedule

Kind = Literal["F", "B", "I", "W"]
"""A forward, a whole backward, or the two halves of one: the gradients of what came in, and those of the weights."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a rank: its work on one microbatch in one of its stages.

    asked: how many of its actions the rank has done when it asks for what this one needs of another rank.
    """

    kind: Kind
    stage: int
    microbatch: int
    asked: int


Orders = tuple[tuple[Action, ...], ...]
"""The actions of each rank, in order."""


@cache
def orders(schedule: Schedule, microbatches: int) -> Orders:
    """Return the orders of one of torch's schedules; `schedule.check` allows these microbatches."""
    if schedule.single:
        order = _one_forward_one_backward if schedule.name == "1F1B" else _fill_and_drain
        return tuple(
            tuple(Action(kind, rank, number, place) for place, (kind, number) in enumerate(order(ahead, microbatches)))
            for rank, ahead in enumerate(range(schedule.stages, 0, -1))
        )
    loops = schedule.stages // schedule.ranks
    stages = [
        SimpleNamespace(
            num_stages=schedule.stages,
            group_size=schedule.ranks,
            group_rank=0,
            submod=nn.Module(),
            is_last=False,
            has_backward=True,
        )
        for _ in range(loops)
    ]
    made = schedule.make(cast(Any, stages), microbatches, cast(Any, None))
    return tuple(tuple(_actions(cast(Any, made).pipeline_order_with_comms[rank])) for rank in range(schedule.ranks))


def _one_forward_one_backward(ahead: int, microbatches: int) -> Iterator[tuple[Kind, int]]:
    """Harlap et al., PipeDream (2018), section 3.2. ahead: the stages from this one to the last."""
    first = min(ahead, microbatches)
    yield from (("F", number) for number in range(first))
    for number in range(microbatches):
        yield "B", number
        if first + number < microbatches:
            yield "F", first + number


def _fill_and_drain(ahead: int, microbatches: int) -> Iterator[tuple[Kind, int]]:
    """Huang et al., GPipe (2019)."""
    yield from (("F", number) for number in range(microbatches))
    yield from (("B", number) for number in range(microbatches))


def _actions(torchs: Sequence[Any]) -> Iterator[Action]:
    """Torch's actions of one rank without those that move data. A receive says when its action's data is asked for."""
    done = 0
    asked: dict[tuple[str, int, int], int] = {}
    for action in torchs:
        name = action.computation_type.value
        if name in ("RECV_F", "RECV_B"):
            asked[name[-1], action.stage_index, action.microbatch_index] = done
        for part in action.sub_actions or (action,):
            kind = part.computation_type.value
            if kind in ("F", "B", "I", "W"):
                needed = "B" if kind == "I" else kind
                since = asked.get((needed, part.stage_index, part.microbatch_index), done)
                yield Action(cast(Kind, kind), part.stage_index, part.microbatch_index, since)
                done += 1


def in_flight(order: Sequence[Action], stage: int) -> int:
    """Return the most microbatches whose activations the stage keeps at once."""
    kept = most = 0
    last = "W" if any(action.kind == "W" for action in order) else "B"
    whole = {action.microbatch for action in order if action.stage == stage and action.kind == "B"}
    for action in order:
        if action.stage == stage:
            kept += action.kind == "F"
            most = max(most, kept)
            kept -= action.kind == "B" or (action.kind == last and action.microbatch not in whole)
    return most
