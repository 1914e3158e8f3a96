"""The outcome of one short run of the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from paceline.calibration import tune as fitted
from paceline.tune.setting import Setting


@dataclass(frozen=True)
class Run:
    """One run.

    number: how many runs of the setting were before it. seconds: how long its steps were to be measured. rates: the
    steps per second of each block of consecutive steps; empty if the run failed, for the `reason`. unused: whether the
    script went on without using Paceline. early: whether it ended well, but too early for its steps to be measured.
    """

    setting: Setting
    number: int
    seconds: float
    rates: tuple[float, ...] = ()
    reason: str = ""
    unused: bool = False
    early: bool = False


def block_rates(begins_ns: Sequence[int]) -> tuple[float, ...]:
    """Return the rates of up to BLOCKS blocks of consecutive steps, in steps per second.

    A rate is that of the whole block, so that it counts what a pipeline of input keeps for later. begins_ns: when each
    step began, in ascending order. Less than two give no rate.
    """
    last = len(begins_ns) - 1
    count = min(fitted.BLOCKS, last)
    edges = [last * number // count for number in range(count + 1)] if count > 0 else []
    spans = ((b - a, begins_ns[b] - begins_ns[a]) for a, b in pairwise(edges))
    return tuple(1e9 * steps / span for steps, span in spans if span > 0)
