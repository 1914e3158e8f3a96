"""What a step is: told from names that come round again, or from rows of calls that repeat."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.observe.begins import decode, encode
from paceline.observe.steps import MAX_NAMES, KnownSteps, NamedSteps, NamelessSteps, period

sizes = st.lists(st.integers(1, 1000), min_size=1, max_size=20)


@given(sizes, st.integers(2, 30), st.randoms(use_true_random=False))
def test_each_round_of_names_is_a_step_in_any_order(sizes: list[int], rounds: int, chance: random.Random) -> None:
    steps = NamedSteps()
    for number in range(rounds):
        names = list(range(len(sizes)))
        chance.shuffle(names)
        for place, name in enumerate(names):
            steps.add(f"tensor {name}", sizes[name], 1_000_000 * number + place)
    assert steps.count == rounds
    # From one submission to the next of the same name, wherever it comes in its round.
    assert abs(steps.median_ns - 1_000_000) < len(sizes)
    begins = steps.begins_ns()
    assert len(begins) == rounds and begins == sorted(begins)
    assert all(abs(begin - 1_000_000 * number) < len(sizes) for number, begin in enumerate(begins))


@given(st.integers(2, 30), st.integers(1, 7))
def test_a_small_name_that_comes_more_often_makes_no_steps(rounds: int, metrics: int) -> None:
    steps = NamedSteps()
    steps.add("all parameters, once", 10**9, 0)
    for number in range(rounds):
        steps.add("gradient", 1000, 10_000 * number)
        for place in range(metrics):
            steps.add("metric", 8, 10_000 * number + 1 + place)
    assert steps.anchor == "gradient"
    assert abs(steps.count - rounds) <= metrics  # until the gradient has come round for the first time
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
        steps.add(("all_reduce", number % 4), 64, 1000 * number)
    steps.settle(0)
    assert (steps.count, steps.median_ns) == (10, 4000)
    for number in range(40, 44):
        steps.add(("all_reduce", number % 4), 64, 1000 * number)
    steps.settle(8)  # eight went by
    assert steps.count == 13


Row = list[tuple[str, int]]
rows = st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 50)), min_size=1, max_size=8, unique=True)


@settings(max_examples=30)
@given(rows, st.integers(100, 150), st.integers(5, 40), st.randoms(use_true_random=False))
def test_what_comes_between_the_calls_of_a_step_changes_nothing(
    row: Row, rounds: int, often: int, chance: random.Random
) -> None:
    """Small calls anywhere, and now and then a large one, which need not begin with the training."""
    steps, begin = NamelessSteps(), 0
    carried = sum(size for _, size in row)
    for number in range(rounds):
        for call in row:
            if chance.random() < 0.2:
                steps.add("metric", 0, begin)
            steps.add(call, 1024 * call[1], begin)
            begin += 10
        if number > 50 and chance.random() < 0.1:
            steps.add("evaluation", 100 * carried, begin)
        if number % often == 0:
            steps.settle(0)
    steps.settle(0)
    assert abs(steps.count - rounds) <= 0.01 * rounds
    assert steps.median_ns == 10 * len(row)


def test_equal_calls_in_a_step_are_told_apart_by_those_that_differ() -> None:
    """Layers of one size, as FSDP2 gathers and reduces them: no kind comes once in a step."""
    steps = NamelessSteps()
    for number in range(50):
        for call in ["gather"] * 3 + ["gather", "scatter"] * 3:
            steps.add(call, 100, number)
        steps.settle(0)
        found = steps.begins_ns()
        assert found == list(range(number + 1))[-len(found) :] if found else number < 3
    assert steps.count == 50


class Optimizer:
    """Any object."""


@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 4))
def test_a_step_is_over_when_an_optimizer_steps_again(optimizers: int, rounds: int, more: int) -> None:
    steps = KnownSteps()
    some = [Optimizer() for _ in range(optimizers)]
    now = 0
    for _ in range(rounds):
        for optimizer in some:
            steps.add(optimizer, now)
            now += 10
    assert steps.count == rounds
    assert steps.begins_ns() == [10 * optimizers * number for number in range(rounds)]
    assert steps.median_ns == (10 * optimizers if rounds > 1 else 0)
    for _ in range(more):  # the first takes more steps than the others
        steps.add(some[0], now)
    assert steps.count == rounds + more
    some.clear()
    del optimizer
    steps.add(Optimizer(), now)
    assert steps.count == rounds + more + 1, "the next phase has another optimizer"


@given(st.lists(st.integers(0, 2**63)))
def test_the_beginnings_of_steps_are_told_as_they_are(begins: list[int]) -> None:
    begins.sort()
    assert decode(encode(begins)) == begins


@pytest.mark.parametrize("data", [b"1234567", encode([2, 1]), bytes(1 << 20)], ids=["cut", "disorder", "long"])
def test_what_is_no_list_of_steps_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not times of steps"):
        decode(data)
