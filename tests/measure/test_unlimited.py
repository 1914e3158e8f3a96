"""While links are measured, no stream is held to what the plans believe of them."""

from __future__ import annotations

import math
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.adapt.measure.unlimited import unlimited


class Native(SimpleNamespace):
    """A native group that keeps what it was told."""

    pace: tuple[float, list[float]]

    def set_pace(self, inbound: float, outbound: list[float]) -> None:
        self.pace = inbound, outbound


@pytest.mark.parametrize("rates", [(8e6, [0.0, 2e6, math.inf]), (math.inf, [])], ids=["limited", "never told"])
def test_limits_come_back(rates: tuple[float, list[float]]) -> None:
    native: Any = Native(pace=rates)
    with suppress(KeyError), unlimited(native):
        assert native.pace == (rates[0], [math.inf] * len(rates[1]))
        raise KeyError
    assert native.pace == rates
