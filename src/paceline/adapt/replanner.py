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
from paceline.topology.measured import Measured

log = logging.getLogger("paceline.plan")

_PRICE = 0.3
"""Seconds that measuring takes, about."""

Measure = Callable[[Any, bool], tuple[Placement, Measured]]
"""Collective: measures the links of a native group, and whether machines share some, see `links`; the same on all
ranks."""
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
        self._pace = Pace(_PRICE)

    def expected(self, call: Call) -> float:
        """Seconds that this call should take."""
        return self._assumed.seconds(*call)

    def changed(self, calls: Sequence[Call], seconds: npt.NDArray[np.float64]) -> float | None:
        """How many times as long as planned calls take, if the network is no longer what plans were made for.

        seconds: of every call, on the rank that waited least; what is negative is not known.
        """
        for call, took in zip(calls, seconds.tolist(), strict=True):
            ratio = self._pace.changed(self.expected(call), took) if took >= 0 else None
            if ratio is not None:
                return ratio
        return None

    def plan_again(self, ratio: float, between: Any) -> None:
        """Collective, with nothing under way in the group. between: a native group of the same ranks, to measure in.

        Links that machines share take seconds to find, so they are looked for where the machines' own are no news.
        Where none are, plans stay.
        """
        start = time.monotonic()
        placement, news = self._assumed.measured(*self._measure(between, False))
        if not news:
            placement, news = self._assumed.measured(*self._measure(between, True))
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
