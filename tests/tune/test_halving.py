"""Successive halving on throughputs that are made up: what it finds, and how many runs that takes."""

from __future__ import annotations

import random
from statistics import median

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from paceline.calibration.tune import ETA, FINAL_RUNS, MOST_REPEATS
from paceline.tune.halving import Search, rungs

speeds = st.lists(st.floats(1.0, 1000.0), min_size=1, max_size=60)


@settings(max_examples=40)
@given(speeds, st.floats(0.0, 0.4), st.randoms(use_true_random=False))
@example([100.0, 60.0], 0.2, random.Random(0))
def test_the_best_is_found_if_it_is_better_by_more_than_the_noise(
    speeds: list[float], noise: float, chance: random.Random
) -> None:
    best = max(range(len(speeds)), key=speeds.__getitem__)
    rivals = [speed for place, speed in enumerate(speeds) if place != best]
    assume(not rivals or speeds[best] * (1 - noise) > max(rivals) * (1 + noise))
    search = Search(range(len(speeds)))
    search.run(lambda place, _: speeds[place] * (1 + chance.uniform(-noise, noise)))
    assert search.complete
    assert max(search.leaders, key=lambda place: median(search.results[place])) == best


@given(st.integers(0, 300))
def test_rungs_keep_the_budget(count: int) -> None:
    found = rungs(count)
    if count < 2:
        assert [(rung.settings, rung.repeats) for rung in found] == [(1, 1)] * count
        return
    assert (found[0].settings, found[0].repeats) == (count, FINAL_RUNS if count <= ETA else 1)
    assert sum(rung.repeats for rung in found) >= FINAL_RUNS
    for rung in found[:-1]:
        assert rung.settings * rung.repeats <= count
        assert rung.repeats <= MOST_REPEATS
    assert found[-1].settings * found[-1].repeats <= max(count, FINAL_RUNS * ETA)


@given(st.integers(1, 40), st.sets(st.integers(0, 39)), st.integers(0, 200))
def test_what_fails_is_tried_once_and_an_end_in_between_keeps_the_rest(
    count: int, failing: set[int], allowed: int
) -> None:
    calls: list[tuple[int, int]] = []

    def measure(place: int, number: int) -> float | None:
        calls.append((place, number))
        return None if place in failing else 100.0 - place

    search = Search(range(count))
    search.run(measure, lambda: len(calls) < allowed)
    planned = sum(rung.settings * rung.repeats for rung in rungs(count))
    assert len(calls) <= min(planned, allowed)
    assert len(set(calls)) == len(calls), "no run twice"
    assert all(number == 0 for place, number in calls if place in failing)
    assert search.complete or len(calls) == allowed
    assert not search.complete or not set(search.leaders) & failing
    assert {place for place, _ in calls} == set(search.results)


def test_no_round_follows_a_decision() -> None:
    seen: list[list[int]] = []
    search = Search(range(9))
    search.run(lambda place, _: float(place), decided=lambda leaders: seen.append(list(leaders)) or len(seen) == 2)
    assert seen == [list(range(9)), [6, 7, 8]] and search.complete
    assert [len(search.results[place]) for place in range(9)] == [1] * 6 + [2] * 3


def test_rivals_take_turns_and_every_other_round_goes_backwards() -> None:
    calls: list[str] = []
    search = Search(["a", "b", "c"])
    search.run(lambda name, _: calls.append(name) or 1.0)
    assert "".join(calls) == "abc" + "cba" + "abc"
