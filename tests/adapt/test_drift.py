"""When links are measured again."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from paceline.adapt.drift import Drift

PRICE = 0.3
CALL = 1.0
"""Seconds of a call that is worth more than a measurement."""
STEADY = st.floats(0.9, 1.1)
STRONG = st.one_of(st.floats(2.0, 100), st.floats(0.01, 0.5))
OTHERS = 5
"""Calls in a row after which a change that is as strong as this must have been found."""


def calls_until(pace: Drift, ratios: Iterable[float], expected: float = CALL) -> int | None:
    """After how many calls links are to be measured."""
    for number, ratio in enumerate(ratios, 1):
        if pace.changed(expected, ratio * expected) is not None:
            return number
    return None


@given(st.lists(STEADY, max_size=200))
def test_noise_is_no_change(ratios: list[float]) -> None:
    assert calls_until(Drift(PRICE), ratios) is None


@given(st.floats(1.2, 1000), st.integers(10, 20), st.integers(0, 20))
def test_one_call_that_was_held_up_is_no_change(stalled: float, between: int, times: int) -> None:
    assert calls_until(Drift(PRICE), [stalled, *[1.0] * between] * times) is None


@given(st.lists(STEADY, max_size=20), STRONG)
def test_two_calls_prove_a_strong_change(steady: list[float], changed: float) -> None:
    pace = Drift(PRICE)
    calls_until(pace, steady)
    found = calls_until(pace, [changed] * OTHERS)
    assert found is not None and found <= 2 + (changed < 1)


@given(st.lists(STEADY, max_size=20), st.floats(1.3, 2.0))
def test_a_weak_one_takes_more(steady: list[float], changed: float) -> None:
    pace = Drift(PRICE)
    calls_until(pace, steady)
    found = calls_until(pace, [changed] * 20)
    assert found is not None and found >= 2


@given(st.floats(2.0, 100), st.floats(0.001, 0.1))
def test_nothing_is_measured_before_that_much_was_lost(ratio: float, expected: float) -> None:
    pace = Drift(PRICE)
    found = calls_until(pace, [ratio] * 1000, expected)
    assert found is not None and found * expected * (ratio - 1) >= PRICE


@given(st.integers(1, 5), st.floats(2.5, 10))
def test_what_is_not_the_links_is_measured_ever_more_rarely(times: int, ratio: float) -> None:
    """Each time it comes back it has to have cost twice as much."""
    pace, expected = Drift(PRICE), 0.01
    lost = []
    for _ in range(times):
        found = calls_until(pace, [ratio] * 10000, expected)
        assert found is not None
        lost.append(found * expected * (ratio - 1))
        pace.measured(others=False)
        calls_until(pace, [1.0] * 8, expected)  # are usual from now on
    assert all(lost[number] >= PRICE * 2**number for number in range(times))


def test_a_wider_measurement_has_to_be_worth_its_price() -> None:
    pace = Drift(PRICE, 10 * PRICE)
    assert calls_until(pace, [2.0] * 20) == 2
    pace.measured(others=False)
    assert pace.step == 1
    more = calls_until(pace, [2.0] * 20)
    assert more is not None and 2 + more >= 10 * PRICE / CALL
    pace.measured(others=False)
    assert pace.step == 0


def test_once_calls_are_as_usual_the_next_measurement_is_a_small_one_again() -> None:
    pace = Drift(PRICE, 10 * PRICE)
    calls_until(pace, [2.0] * 2)
    pace.measured(others=False)
    assert calls_until(pace, [1.0] * 20) is None
    assert pace.step == 0


@given(st.floats(0.1, 100))
def test_what_the_prediction_leaves_out_is_measured_once(ratio: float) -> None:
    pace = Drift(PRICE)
    pace.measured(others=False)
    assert calls_until(pace, [ratio] * 100) is None
    assert calls_until(pace, [2.5 * ratio] * 20) is not None


def test_other_links_are_a_new_beginning() -> None:
    pace = Drift(PRICE)
    pace.measured(others=False)
    calls_until(pace, [3.0] * 8)
    pace.measured(others=True)
    assert calls_until(pace, [1.0] * 100) is None
    assert calls_until(pace, [3.0] * 5) == 2
