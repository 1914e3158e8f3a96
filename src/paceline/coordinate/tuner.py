"""Which size of batches makes steps shortest, found out from nothing but how long steps take.

Sizes take turns, so that what else happens on the machine happens to all of them. A round has a turn of each size, in
one direction and in the next round in the other; a size's figure in a round is its steps' median against that of the
size to begin with, in the same round. What is never better goes out early. The best of the rest meets the first size
again, in rounds of their own, since the best of several looks better than it is; only then does it stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

CANDIDATES = (1 << 20, 4 << 20, 16 << 20, 64 << 20)
"""Bytes."""
WARM_UP = 5
"""Steps, alike and in a row, before the first turn."""
COUNTED = 3
MOST_COUNTED = 10
"""Steps of a turn, after one that isn't counted, in which the size changed. There are more of short ones."""
TURN_SECONDS = 0.05
"""How long those should take."""
ROUNDS = 8
FIRST_LOOK = 2
"""Rounds until a size that was never better goes out."""
MUCH_WORSE = 1.2
"""The figure in its first round with which a size goes out at once."""
BETTER = 0.97
"""The figure from which on another size is worth it, if it was better in all rounds but one."""
UNLIKE = 20
"""Steps of other requests than usual, until it is given up."""


class Turn(NamedTuple):
    """What came out of one turn."""

    round: int
    fusion_bytes: int
    seconds: float
    """The median of its steps."""


class Tuner:
    """Tells with which `fusion_bytes` the next step is to be made; `add` is told how long it took.

    Once there is an `outcome`, a sentence, `fusion_bytes` stays as it is. That takes `most_steps` steps at most.
    """

    def __init__(self, fusion_bytes: int, candidates: Sequence[int] = CANDIDATES) -> None:
        """`fusion_bytes`: the size to begin with, which stays if no candidate is better."""
        self.fusion_bytes = self._first = fusion_bytes
        self.outcome = ""
        self.turns: list[Turn] = []
        self.steps = 0
        self._sizes = [fusion_bytes, *(size for size in dict.fromkeys(candidates) if size != fusion_bytes)]
        most = (len(self._sizes) + 2) * ROUNDS * (1 + MOST_COUNTED)
        self.most_steps = WARM_UP + most + (UNLIKE + 1) * (WARM_UP + MOST_COUNTED)
        self._counted = COUNTED
        self._confirms = False
        self._round = 0
        self._queue: list[int] = []
        self._seconds: list[float] = []
        self._figures: dict[int, list[float]] = {}
        self._seen: dict[int, float] = {}
        self._usual = -1
        self._alike = 0
        self._unlike = 0

    def add(self, seconds: float, requests: int) -> None:
        """A step took so long, from its first request to the next step's, and had as many requests."""
        if self.outcome:
            return
        self.steps += 1
        if requests != self._usual:
            self._add_unlike(requests)
        else:
            self._seconds.append(seconds)
            if self._alike < WARM_UP:
                self._alike += 1
                if self._alike == WARM_UP:
                    self._end_warm_up()
            elif len(self._seconds) > self._counted:
                self._end_turn()

    def _add_unlike(self, requests: int) -> None:
        if self._alike < WARM_UP:
            self._usual, self._alike = requests, 1
        self._seconds.clear()
        self._unlike += 1
        if self._unlike > UNLIKE:
            self._stay("steps are not alike")

    def _end_warm_up(self) -> None:
        needed = TURN_SECONDS / max(median(self._seconds), 1e-9)
        self._counted = min(max(math.ceil(needed), COUNTED), MOST_COUNTED)
        self._begin_round()

    def _begin_round(self) -> None:
        self._round += 1
        self._queue = self._sizes[:: 1 if self._round % 2 else -1]
        self._begin_turn()

    def _begin_turn(self) -> None:
        self.fusion_bytes = self._queue[0]
        self._seconds.clear()

    def _end_turn(self) -> None:
        self.turns.append(Turn(self._round, self._queue.pop(0), median(self._seconds[1:])))
        if self._queue:
            self._begin_turn()
        else:
            self._end_round()

    def _end_round(self) -> None:
        taken = {turn.fusion_bytes: turn.seconds for turn in self.turns[-len(self._sizes) :]}
        base = max(taken.pop(self._first), 1e-9)
        for size, seconds in taken.items():
            figures = self._figures.setdefault(size, [])
            figures.append(seconds / base)
            self._seen[size] = median(figures)
            if figures[0] >= MUCH_WORSE or (len(figures) >= FIRST_LOOK and min(figures) >= 1):
                self._sizes.remove(size)
        if len(self._sizes) == 1:
            self._stay("no other size was better")
        elif len(self._figures[self._sizes[1]]) < ROUNDS:
            self._begin_round()
        else:
            self._judge(min(self._sizes[1:], key=self._seen.__getitem__))

    def _judge(self, best: int) -> None:
        if not is_better(self._figures[best]):
            self._stay("no other size was better beyond the noise")
        elif self._confirms:
            self._take(best)
        else:
            self._confirms = True
            self._sizes = [self._first, best]
            self._figures.clear()
            self._begin_round()

    def _stay(self, why: str) -> None:
        self.fusion_bytes = self._first
        self._end(f"{written(self._first)} stay, because {why}")

    def _take(self, size: int) -> None:
        self.fusion_bytes = size
        self._end(f"{written(size)} instead of {written(self._first)}, PACELINE_FUSION_BYTES={size} from the start")

    def _end(self, sentence: str) -> None:
        took = ", ".join(f"{written(size)} {figure:.1%}" for size, figure in sorted(self._seen.items()))
        figures = f"; of a step's time with {written(self._first)} took {took}" if took else ""
        self.outcome = f"batches of at most {sentence}{figures}; {self.steps} steps were tried"


def is_better(figures: Sequence[float]) -> bool:
    """Whether these figures of one size, a round's each, are those of a better one."""
    return median(figures) <= BETTER and sum(figure >= 1 for figure in figures) <= 1


def written(size: int) -> str:
    """For example: 4 MiB."""
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} bytes"
