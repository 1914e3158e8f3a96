"""Numbers in sentences and tables."""

from __future__ import annotations

import pytest

from paceline.formats.numbers import in_full


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (2, "2"),
        (0.001, "0.001"),
        (1e-7, "0.0000001"),
        (0.1 + 0.2, "0.3"),
        (864000.0, "864000"),
        (1e6, "1000000"),
        (12345678.0, "12345678"),
        (-1e7, "-10000000"),
        (2.0**40, "1099511627776"),
        (float("inf"), "Infinity"),
    ],
)
def test_a_number_in_full_has_no_exponent(value: float, text: str) -> None:
    assert in_full(value) == text
