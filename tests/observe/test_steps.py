"""What a step is: told from names that come round again, or from rows of calls that repeat."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from paceline.observe.steps import MAX_NAMES, NamedSteps, NamelessSteps, period

sizes = st.lists(st.integers(1, 1000), min_size=1, max_size=20)


@given(sizes, st.integers(2, 30), st.randoms(use_true_random=False))
def test_each_round_of_names_is_a_step_in_any_order(sizes: list[int], rounds: int, chance: random.Random) -> None:
    steps = NamedSteps()
    for number in range(rounds):
        names = list(range(len(sizes)))
        chance.shuffle(names)
        for place, name in enumerate(names):
            steps.add(f"tensor {name}", sizes[name], 1_000_000 * number + place)
    assert steps.count == rounds - 1
    # From one hand-in to the next of the same name, wherever it comes in its round.
    assert abs(steps.median_ns - 1_000_000) < len(sizes)


@given(st.integers(2, 30), st.integers(1, 7))
def test_a_small_name_that_comes_more_often_makes_no_steps(rounds: int, metrics: int) -> None:
    steps = NamedSteps()
    steps.add("all parameters, once", 10**9, 0)
    for number in range(rounds):
        steps.add("gradient", 1000, 10_000 * number)
        for place in range(metrics):
            steps.add("metric", 8, 10_000 * number + 1 + place)
    assert steps.anchor == "gradient"
    assert abs(steps.count - (rounds - 1)) <= metrics - 1  # until the gradient has come round for the first time
    late = steps.count
    steps.add("gradient", 1000, 10_000 * rounds)
    steps.add("metric", 8, 10_000 * rounds + 1)
    assert steps.count == late + 1


def test_names_that_never_come_round_again_are_no_steps_and_fill_nothing() -> None:
    steps = NamedSteps()
    for number in range(2 * MAX_NAMES):
        steps.add(f"allreduce.noname.{number}", 4, number)
    assert (steps.count, steps.anchor, steps.median_ns) == (0, "", 0)
    assert len(steps._names) == MAX_NAMES


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(3, 8), st.integers(0, 11))
def test_the_period_is_the_shortest_row_that_repeats(row: list[int], times: int, cut: int) -> None:
    calls = (row * (times + 1))[: len(row) * times + cut % len(row)]
    found = period(calls)
    assert 0 < found <= len(row)
    assert all(a == b for a, b in zip(calls, calls[found:], strict=False))
    for shorter in range(1, found):
        assert any(a != b for a, b in zip(calls, calls[shorter:], strict=False))


def test_a_row_that_ends_in_equal_calls_is_not_taken_for_them() -> None:
    assert period(list("baaa" * 5)) == 4
    assert period(list("xyz" + "ab" * 10)) == 2  # what came before is forgotten
    assert period(list("abcdefgh")) == 0
    assert period([]) == 0


def test_steps_without_names_are_counted_by_their_calls() -> None:
    steps = NamelessSteps()
    for number in range(40):
        steps.add(("all_reduce", number % 4), 1000 * number)
    steps.settle(0)
    assert (steps.count, steps.median_ns) == (10, 4000)
    steps.add(("all_reduce", 0), 40_000)
    steps.settle(7)  # seven went by
    assert steps.count == 12
