"""Torch's own pipeline schedules: which there are, and which stages each rank gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.distributed.pipelining import schedules

from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.stage import Stage

_NAMES = (
    "1F1B",
    "GPipe",
    "Interleaved1F1B",
    "LoopedBFS",
    "InterleavedZeroBubble",
    "ZBVZeroBubble",
    "DualPipeV",
)
_V_SHAPED = ("ZBVZeroBubble", "DualPipeV")
_LOOPS = 2
"""Stages of each rank where a schedule takes several."""


@dataclass(frozen=True)
class Schedule:
    """One of torch's schedules on so many ranks. kind: torch's class."""

    name: str
    ranks: int

    @property
    def kind(self) -> type[schedules.PipelineScheduleSingle] | type[schedules.PipelineScheduleMulti]:
        """Torch's class."""
        found: type[schedules.PipelineScheduleSingle] | type[schedules.PipelineScheduleMulti]
        found = schedules.get_schedule_class(self.name)
        return found

    @property
    def single(self) -> bool:
        """True if each rank has one stage."""
        return issubclass(self.kind, schedules.PipelineScheduleSingle)

    @property
    def stages(self) -> int:
        """The stages of all ranks."""
        return self.ranks * (1 if self.single else _LOOPS)

    @property
    def rank_of(self) -> list[int]:
        """The rank of each stage."""
        there = list(range(self.ranks))
        return (there + (there[::-1] if self.name in _V_SHAPED else there))[: self.stages]

    def check(self, microbatches: int) -> None:
        """Raise HybridError unless torch's schedule works with so many microbatches."""
        if self.name in ("1F1B", "DualPipeV") and microbatches < self.stages:
            raise HybridError(
                f"{self.name} needs at least as many microbatches as stages: found {microbatches} for {self.stages}"
            )
        rounds = max(1, microbatches // self.ranks)
        if self.name in ("Interleaved1F1B", "InterleavedZeroBubble") and microbatches % rounds:
            raise HybridError(
                f"{self.name} on {self.ranks} partitions makes {rounds} rounds of {microbatches} microbatches, "
                "which can't be equal: choose a multiple of the partitions"
            )

    def make(
        self, stages: Sequence[Stage], microbatches: int, loss: Callable[[tuple[Tensor, ...], Tensor], Tensor]
    ) -> schedules.PipelineScheduleSingle | schedules.PipelineScheduleMulti:
        """Torch's schedule of this rank's stages."""
        given = stages[0] if self.single else list(stages)
        return self.kind(given, microbatches, loss_fn=loss, scale_grads=False)  # type: ignore[arg-type]


def find_schedule(name: str, ranks: int) -> Schedule:
    """The schedule of this name, in any case. Raises HybridError if there is none."""
    known = {each.lower(): each for each in _NAMES}
    if name.lower() not in known:
        raise HybridError(f"there is no schedule {name!r}: choose one of {', '.join(_NAMES)}")
    return Schedule(known[name.lower()], ranks)
