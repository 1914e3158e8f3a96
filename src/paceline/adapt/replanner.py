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
"""`measure(group, switches)` measures the links between the machines of a native group; see `remeasure.links`."""
Plans = Callable[[Placement], Entries]
"""Makes the plans of the group for the network that was measured."""


class Call(NamedTuple):
    """A collective of `AssumedNetwork.seconds`."""

    collective: str
    nbytes: int


class Replanner:
    """Keeps the plans of one native group to its network.

    All ranks of the group call it with the same values in the same order, so all come to the same conclusions.
    """

    def __init__(self, native: Group, placement: Placement, measure: Measure, plans: Plans) -> None:
        self._native = native
        self._measure, self._plans = measure, plans
        self._assumed = AssumedNetwork(placement)
        self._assumed.prepare()  # and not between two operations of the program
        machines = sum(1 for _ in placement.topology.machines())
        prices = (fitted.PRICE, fitted.PRICE_OF_SWITCHES) if machines >= LEAST_MACHINES else (fitted.PRICE,)
        self._drift = Drift(*prices)

    def expected(self, call: tuple[str, int]) -> float:
        """The seconds that this call should take."""
        return self._assumed.seconds(*call)

    def changed(self, calls: Sequence[tuple[str, int]], seconds: npt.NDArray[np.float64]) -> float | None:
        """Return the factor by which calls are slower than usual if the network should be measured, else None.

        calls: the collective and the bytes of each. seconds: the time of each on the rank that waited least; negative
        where it is not known.
        """
        for call, took in zip(calls, seconds.tolist(), strict=True):
            ratio = self._drift.changed(self.expected(call), took) if took >= 0 else None
            if ratio is not None:
                return ratio
        return None

    def plan_again(self, ratio: float, between: Group) -> None:
        """Measure the network, and make the plans again if it explains why calls take `ratio` times as long as usual.

        Collective; nothing may be under way in the group. between: a native group of the same ranks, to measure in.
        Links that machines share take seconds to find, so they are only looked for if the machines' own links explained
        nothing and more time was lost since.
        """
        start = time.monotonic()
        placement, news = self._assumed.measured(*self._measure(between, self._drift.step > 0))
        if news and not self._explains(placement, ratio):
            news = ""
        if news:
            self._native.set_plans(self._plans(placement))
            self._assumed = AssumedNetwork(placement)
            self._assumed.prepare()
        self._drift.measured(bool(news))
        if self._native.rank == 0:
            log.warning(
                "collectives take %.2g times as long as usual: the links were measured, in %.1f s, and %s",
                ratio,
                time.monotonic() - start,
                f"plans made again: {news}" if news else "explain nothing of that, so plans stay",
            )

    def _explains(self, now: Placement, ratio: float) -> bool:
        """Return whether the network `now` accounts for calls that take `ratio` times as long as usual."""
        slower = math.log(self._assumed.slower(now))
        return (slower if ratio > 1 else -slower) >= fitted.EXPLAINS
