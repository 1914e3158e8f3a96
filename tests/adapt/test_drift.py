"""What counts as a change for good."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paceline.adapt.drift import CHANGED, PATIENCE, Pace

STEADY = st.floats(1 / CHANGED + 0.01, CHANGED - 0.01)
SUSPICIOUS = st.one_of(st.floats(CHANGED + 0.01, 100), st.floats(0.01, 1 / CHANGED - 0.01))


@given(st.lists(STEADY))
def test_noise_is_no_change(ratios: list[float]) -> None:
    pace = Pace()
    assert not any(pace.changed(ratio) for ratio in ratios)


@given(STEADY, SUSPICIOUS)
def test_one_bad_window_is_no_change(steady: float, suspicious: float) -> None:
    pace = Pace()
    assert not any(pace.changed(ratio) for ratio in (steady, suspicious) * 5)


@given(st.lists(STEADY), st.lists(SUSPICIOUS, min_size=PATIENCE, max_size=PATIENCE))
def test_a_change_for_good_is_found_as_soon_as_patience_ends(steady: list[float], changed: list[float]) -> None:
    pace = Pace()
    verdicts = [pace.changed(ratio) for ratio in (*steady, *changed)]
    assert verdicts == [False] * (len(verdicts) - 1) + [True]


@given(st.integers(0, 5), SUSPICIOUS)
def test_what_is_not_the_links_is_measured_ever_more_rarely(times: int, suspicious: float) -> None:
    pace = Pace()
    for _ in range(times):
        pace.measured(others=False)
    pace.changed(1.0)  # is usual from now on
    assert [pace.changed(suspicious) for _ in range(PATIENCE << times)] == [False] * ((PATIENCE << times) - 1) + [True]
    pace.measured(others=True)
    pace.changed(1.0)
    assert [pace.changed(suspicious) for _ in range(PATIENCE)][-1]


@given(st.floats(0.01, 100))
def test_what_the_prediction_leaves_out_is_measured_once(ratio: float) -> None:
    pace = Pace()
    pace.measured(others=True)
    assert not any(pace.changed(ratio) for _ in range(10))
    assert [pace.changed(2 * ratio) for _ in range(PATIENCE)][-1]
