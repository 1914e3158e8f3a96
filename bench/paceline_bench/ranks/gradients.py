"""Data like gradients, for codecs: what a codec makes of data depends on the data, and its result is not exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .case import Buffers
from .pattern import PERIOD, Array, fill

COLLECTIVES = ("all_reduce", "broadcast")
"""The collectives that are measured with codecs."""
RELATIVE = {"auto": 2**-8, "bf16": 2**-8, "fp16": 2**-11, "three_in_one": 2**-6, "int8": 0.51 / 127, "int4": 0.51 / 7}
"""The largest error of each codec as a share of the magnitude, of the largest in its group for `GROUPED`; 0 for all
others. `auto` may be `bf16`."""
GROUP = 128
"""Elements that `GROUPED` codecs scale together."""
GROUPED = ("int8", "int4")

_SMALLEST = {"fp16": 2.0**-25, "three_in_one": 33 * 2.0**-21}
"""The error that each codec may make however small the magnitude is; 0 for all others."""
_DEVIATION = 1e-3
"""The standard deviation of the data."""
_ROUNDING = 2.0**-24
"""The largest relative error of one operation in float32."""
_TIMED_SEED = 0
"""The seed of the data while calls are timed."""

Floats = NDArray[np.float64]


class Gradients(Buffers):
    """The buffers of an average or a broadcast of normally distributed float32."""

    def load(self, seed: int) -> None:
        """Write the input of this rank."""
        fill(self.source, _contribution(self.case.rank, seed))

    def count_wrong(self, seed: int) -> int:
        """Return the number of elements that are further from the exact result than the codec may take them."""
        averaged = self.case.collective == "all_reduce"
        contributors = range(self.case.ranks) if averaged else [self.case.root]
        given = [_contribution(rank, seed).astype(np.float64) for rank in contributors]
        expected = np.mean(given, axis=0)
        allowed = bound(self.case.codec, given)
        wrong = 0
        for begin in range(0, len(self.target), PERIOD):
            part = self.target[begin : begin + PERIOD]
            near = np.abs(part - expected[: len(part)]) <= allowed[: len(part)]
            wrong += len(part) - int(np.count_nonzero(near))
        return wrong

    def clear(self) -> None:
        """Write the input of the timed calls. An average and a broadcast keep it in range, however often they run."""
        self.load(_TIMED_SEED)


def bound(codec: str, contributions: list[Floats]) -> Floats:
    """Return the largest error of each element of the mean of the contributions, each a period that repeats.

    Each rank encodes an element at most once, whatever the plan: its part of the sum or the outcome. No partial sum is
    larger than the magnitudes of all contributions together.
    """
    count = len(contributions)
    magnitudes = np.mean(np.abs(contributions), axis=0)
    scale = _largest_around(magnitudes) if codec in GROUPED else magnitudes
    relative = RELATIVE.get(codec, 0.0)
    once = relative * scale + _SMALLEST.get(codec, 0.0)
    encoded = count * once * (1 + relative) ** (count - 1)
    # There are count - 1 additions and a division, and neither if there is one contribution.
    rounded = 2 * (count - 1) * _ROUNDING * (magnitudes + encoded)
    result: Floats = encoded + rounded
    return result


def _largest_around(values: Floats) -> Floats:
    """Return the largest of each element and the `GROUP` - 1 on either side, because groups begin anywhere."""
    largest, reach = values, 1
    while reach < GROUP:  # doubles how far an element sees to its right
        largest = np.maximum(largest, np.roll(largest, -reach))
        reach *= 2
    return np.maximum(largest, np.roll(largest, GROUP - 1))


def _contribution(rank: int, seed: int) -> Array:
    """Return one period, float32[PERIOD], of the input of a rank."""
    made: NDArray[Any] = np.random.default_rng([seed, rank]).standard_normal(PERIOD, np.float32) * np.float32(
        _DEVIATION
    )
    return made
