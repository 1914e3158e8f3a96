"""What is concluded from rounds in which machines' own links were measured."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.measure.uplinks import spread


@pytest.mark.parametrize(
    ("rates", "factor"),
    [
        ([[4.0, 6.0, np.nan], [2.0, np.nan, 5.0], [2.0, 2.0, 5.0]], 2.0),
        ([[4.0, 6.0, 0.0], [2.0, 0.0, 5.0]], 2.0),  # nothing arrived in a round
        ([[0.0], [3.0]], np.inf),
    ],
)
def test_the_spread_is_that_of_the_usual_pair(rates: list[list[float]], factor: float) -> None:
    with np.errstate(all="raise"):
        assert spread(np.array(rates)) == factor
