"""Numbers in sentences and tables."""

from __future__ import annotations

import pytest

from paceline.formats.numbers import in_full, number
from paceline.formats.sizes import show_duration, show_seconds


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
        (float("inf"), "inf"),
    ],
)
def test_a_number_in_full_has_no_exponent(value: float, text: str) -> None:
    assert in_full(value) == text


@pytest.mark.parametrize(
    ("seconds", "text", "duration"),
    [
        (4e-7, "0.4 us", "0.0000004 s"),
        (9.996e-4, "1 ms", "0.001 s"),
        (0.99996, "1 s", "1 s"),
        (3e-12, "0.000003 us", "0.000000000003 s"),
        (31.24, "31.2 s", "31.2 s"),
        (1920.4, "1920 s", "1920 s"),
    ],
)
def test_a_time_is_neither_zero_nor_with_an_exponent(seconds: float, text: str, duration: str) -> None:
    assert show_seconds(seconds) == text
    assert show_duration(seconds) == duration


def test_a_figure_in_a_table_has_three_digits_and_no_exponent() -> None:
    figures = [0.00001234, 0.0123, 12.34, 1234.4, 9999.6, 13_560, 1e9]
    assert [number(one) for one in figures] == [
        "0.0000123",
        "0.0123",
        "12.3",
        "1234",
        "10 000",
        "13 560",
        "1 000 000 000",
    ]
