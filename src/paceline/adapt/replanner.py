"""Keeps the plans of a group to its network, once its ranks have agreed on how long collectives took."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paceline.adapt.drift import Pace
from paceline.adapt.network import Assumed
from paceline.topology.discover import Placement
from paceline.topology.measured import Load

log = logging.getLogger("paceline.plan")

WINDOW = 8
"""Calls that are looked at together."""

Measure = Callable[[Any], tuple[Placement, Sequence[Load]]]
"""Collective: measures the links of a native group, see `links`; the same on all ranks."""
Plans = Callable[[Placement], Any]


class Call(NamedTuple):
    """A collective of `Assumed.seconds`."""

    collective: str
    nbytes: int


class Keeper:
    """Of one native group. All ranks tell it the same, in the same order, so all come to the same."""

    def __init__(self, native: Any, placement: Placement, measure: Measure, plans: Plans) -> None:
        self._native = native
        self._measure, self._plans = measure, plans
        self._assumed = Assumed(placement)
        self._pace = Pace()

    def changed(self, calls: Sequence[Call], seconds: npt.NDArray[np.float64]) -> float | None:
        """How many times as long as planned these calls took, if the network is no longer what plans were made for.

        seconds: of every call, on the rank that waited least.
        """
        expected = sum(self._assumed.seconds(*call) for call in calls)
        ratio = float(seconds.sum()) / expected
        return ratio if self._pace.changed(ratio) else None

    def plan_again(self, ratio: float, between: Any) -> None:
        """Collective, with nothing under way in the group. between: a native group of the same ranks, to measure in.

        Where the links are what they were taken for, plans stay.
        """
        start = time.monotonic()
        placement, news = self._assumed.measured(*self._measure(between))
        if news:
            self._native.set_plans(self._plans(placement))
            self._assumed = Assumed(placement)
        self._pace.measured(bool(news))
        if self._native.rank == 0:
            log.warning(
                "collectives take %.2g times what their plans should take: the links were measured, in %.1f s, and %s",
                ratio,
                time.monotonic() - start,
                f"plans made again: {news}" if news else "are what they were taken for, so plans stay",
            )
