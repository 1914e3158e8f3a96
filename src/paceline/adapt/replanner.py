"""Keeps the plans of a group to its network, once its ranks have agreed on how long collectives took."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from paceline._engine import Group
from paceline.adapt.drift import Drift
from paceline.adapt.network import AssumedNetwork
from paceline.calibration import adapt as fitted
from paceline.group.host import Entries
from paceline.topology.discover import Placement
from paceline.topology.measured import Measured
from paceline.topology.switches import LEAST_MACHINES

log = logging.getLogger("paceline.plan")


Measure = Callable[[Group, bool], tuple[Placement, Measured]]
"""Collective: measures the links of a native group, and whether machines share some, see `links`; the same on all
ranks."""
Plans = Callable[[Placement], Entries]
"""Makes the plans of the group for the network that was measured."""


class Call(NamedTuple):
    """A collective of `AssumedNetwork.seconds`."""

    collective: str
    nbytes: int


class Replanner:
    """Of one native group. All ranks tell it the same, in the same order, so all come to the same."""

    def __init__(self, native: Group, placement: Placement, measure: Measure, plans: Plans) -> None:
        self._native = native
        self._measure, self._plans = measure, plans
        self._assumed = AssumedNetwork(placement)
        machines = sum(1 for _ in placement.topology.machines())
        prices = (fitted.PRICE, fitted.PRICE_OF_SWITCHES) if machines >= LEAST_MACHINES else (fitted.PRICE,)
        self._drift = Drift(*prices)

    def expected(self, call: tuple[str, int]) -> float:
        """Seconds that this call should take."""
        return self._assumed.seconds(*call)

    def changed(self, calls: Sequence[tuple[str, int]], seconds: npt.NDArray[np.float64]) -> float | None:
        """How many times as long as usual calls take, if the network is no longer what plans were made for.

        seconds: of every call, on the rank that waited least; what is negative is not known.
        """
        for call, took in zip(calls, seconds.tolist(), strict=True):
            ratio = self._drift.changed(self.expected(call), took) if took >= 0 else None
            if ratio is not None:
                return ratio
        return None

    def plan_again(self, ratio: float, between: Group) -> None:
        """Collective, with nothing under way in the group. between: a native group of the same ranks, to measure in.

        Links that machines share take seconds to find, so they are looked for where the machines' own explain nothing,
        and more time was lost since. Where nothing explains it, plans stay.
        """
        start = time.monotonic()
        placement, news = self._assumed.measured(*self._measure(between, self._drift.step > 0))
        if news and not self._explains(placement, ratio):
            news = ""
        if news:
            self._native.set_plans(self._plans(placement))
            self._assumed = AssumedNetwork(placement)
        self._drift.measured(bool(news))
        if self._native.rank == 0:
            log.warning(
                "collectives take %.2g times as long as usual: the links were measured, in %.1f s, and %s",
                ratio,
                time.monotonic() - start,
                f"plans made again: {news}" if news else "explain nothing of that, so plans stay",
            )

    def _explains(self, now: Placement, ratio: float) -> bool:
        """Whether calls should take so much longer, or less, on this network."""
        slower = math.log(self._assumed.slower(now))
        return (slower if ratio > 1 else -slower) >= fitted.EXPLAINS
