"""The division of a stage's calls into segments, of which some keep no activations in memory.

To compute a segment again only its inputs are kept, and one segment after the other is restored in the backward: n
segments of equal size need the inputs of n and the activations of one (Chen et al., "Training Deep Nets with Sublinear
Memory Cost", 2016). The last calls of a stage are those that are kept: a backward has freed them when it comes to a
segment that is computed again.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from paceline.torch.partitioned.budget import Activations
from paceline.torch.partitioned.cut import Chain

_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of segments of a stage that are tried."""


@dataclass(frozen=True)
class Segment:
    """The calls from `begin` on and before `end`, and what becomes of their activations."""

    begin: int
    end: int
    activations: Activations


class Held(NamedTuple):
    """Bytes of a stage's activations: those of each microbatch until its backward, and at most more during that."""

    each: float
    more: float


def held(chain: Chain, segments: Sequence[Segment]) -> Held:
    """Return what these segments, which are a whole stage, hold. What the stage receives does not count."""
    kept = inputs = restored = 0.0
    for number, one in enumerate(segments):
        saved = float(sum(chain.saved[one.begin : one.end]))
        if one.activations == "keep":
            kept += saved
        elif one.activations == "recompute":
            restored = max(restored, saved)
        if number and one.activations != "file":
            inputs += chain.up[one.begin]
    end = segments[-1].end
    if segments[-1].activations != "keep" and end < len(chain.saved):
        inputs += chain.up[end]  # torch keeps what a stage sends until the backward
    return Held(inputs + kept, max(0.0, restored - kept))


def divide(chain: Chain, begin: int, end: int, in_flight: int, room: float, beyond: Activations) -> tuple[Segment, ...]:
    """Return the segments of a stage that keep as many calls as there is room for.

    in_flight: the microbatches whose activations the stage has at once. room: bytes for them. If there is too little
    for any segments, nothing is kept.
    """
    stage = _Stage(chain, begin, end, in_flight, beyond)
    number = len(stage.places)
    first = 0
    if stage.least(0)[0] > room:  # the more is not kept, the less a stage needs, but for what crosses where it begins
        first = min(number - 1, bisect_left(range(number), True, key=lambda place: stage.least(place)[0] <= room))
    bounds = stage.least(first)[1]
    before = tuple(Segment(one, other, beyond) for one, other in pairwise(bounds))
    kept = stage.places[first]
    return (*before, Segment(kept, end, "keep")) if kept < end else before


class _Stage:
    """A stage whose segments may begin and end at some places.

    crossing: bytes that are kept at each place if a segment begins there. saved: bytes of the calls before it.
    """

    def __init__(self, chain: Chain, begin: int, end: int, in_flight: int, beyond: Activations) -> None:
        known = (place for place in range(begin + 1, end) if math.isfinite(chain.up[place]))
        self.places = [begin, *known, end]
        self._saved = np.concatenate([[0.0], np.cumsum(chain.saved[begin:end])])[np.subtract(self.places, begin)]
        last = chain.up[end] if end < len(chain.saved) else 0.0  # torch keeps what a stage sends until the backward
        self._crossing = np.array([0.0, *(chain.up[place] for place in self.places[1:-1]), last])
        self._in_flight, self._beyond = in_flight, beyond

    def least(self, first: int) -> tuple[float, list[int]]:
        """The bytes that the stage needs if it keeps the calls from place `first` on, and the bounds of its segments.

        The bounds are those of the segments before that, with which it needs the least.
        """
        if not first:
            return self._needed([0]), []
        if self._beyond != "recompute":
            each = float(self._crossing[first]) + self._kept(first)
            return self._in_flight * each, [self.places[0], self.places[first]]
        choices = [self._equal(first, number) for number in _NUMBERS if number <= first]
        best = min(choices, key=self._needed)
        return self._needed(best), [self.places[place] for place in best]

    def _needed(self, bounds: Sequence[int]) -> float:
        """Bytes if the segments between these places are computed again, and the rest is kept."""
        each = float(self._crossing[bounds].sum() + self._kept(bounds[-1]))
        restored = float(np.diff(self._saved[bounds]).max(initial=0.0))
        return self._in_flight * each + max(0.0, restored - self._kept(bounds[-1]))

    def _kept(self, first: int) -> float:
        return float(self._saved[-1] - self._saved[first])

    def _equal(self, last: int, number: int) -> list[int]:
        """Bounds of segments up to a place, each with about the same activations, which begin where little crosses."""
        whole = float(self._saved[last])
        around = whole / number / 4
        inner = {self._lowest(whole * part / number, around, last) for part in range(1, number)} - {0, last}
        return [0, *sorted(inner), last]

    def _lowest(self, target: float, around: float, last: int) -> int:
        """The place with about so many saved bytes before it where the fewest cross; the next one if there is none."""
        first, behind = np.searchsorted(self._saved[:last], (target - around, target + around))
        return int(first + np.argmin(self._crossing[first:behind])) if first < behind else int(first)
