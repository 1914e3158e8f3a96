"""A plan, the buffer sizes that it serves, and why it was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.calibration.plan import CHUNKS_UNDER_WAY
from paceline.plan.ir import Plan
from paceline.plan.outline import Outline, outline

NO_LIMIT = -1
"""The `limit` in bytes of a choice for buffers of any size."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan for buffers of up to `limit` bytes (inclusive; -1: any size), and the reason in one sentence.

    one_shot: in the plan's last level every holder sends what it has to all others once and takes what it needs. In a
    reduction each holder combines everything for itself as if it were the owner, and nothing is sent back.
    chunk: a larger buffer is cut into equal chunks of at most this many bytes (at least 4096; 0: never). The plan
    serves each chunk on its own, so that their levels overlap. A chunk of an all-gather or a reduce-scatter is the same
    part of every rank's block.
    under_way: the chunks that are under way at once.
    predicted: (name, seconds) of this and the other candidates for a buffer of `nbytes` bytes, the chosen one first,
    then the quickest; empty where nothing was compared.
    """

    plan: Plan
    limit: int
    reason: str
    one_shot: bool = False
    chunk: int = 0
    under_way: int = CHUNKS_UNDER_WAY
    nbytes: int = 0
    predicted: tuple[tuple[str, float], ...] = ()

    @property
    def name(self) -> str:
        """The name of this choice in traces and reports."""
        return "one_shot" if self.one_shot and len(self.plan.levels) == 1 else self.plan.name

    @property
    def outline(self) -> Outline:
        """The outline of what the plan sends, for the cost model."""
        return outline(self.plan, self.one_shot)


def serving(choices: Sequence[Choice], nbytes: int) -> Choice:
    """Return which of these, by rising limit and the last without one, serves a buffer of `nbytes` bytes."""
    return next(choice for choice in choices if choice.limit == NO_LIMIT or nbytes <= choice.limit)
