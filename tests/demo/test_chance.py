"""What the demo tells from chance, over figures made up by hand and drawn."""

import random

import pytest

from paceline.cli.demo.chance import CHANCE, compare, needed, sign
from paceline.cli.demo.figure import figure

NAMES = ("paceline", "gloo")


@pytest.mark.parametrize(("epochs", "agreeing"), [(0, 1), (1, 2), (5, 6), (6, 6), (8, 8), (9, 8), (11, 10), (30, 21)])
def test_how_many_epochs_must_agree(epochs: int, agreeing: int) -> None:
    assert needed(epochs) == agreeing


def test_what_is_chance_alone_seldom_has_a_sign() -> None:
    draw = random.Random(0)
    runs = 2000
    signed = sum(sign([draw.gauss(0, 1) for _ in range(11)]) != 0 for _ in range(runs))
    assert signed <= CHANCE * runs


def test_a_difference_as_large_as_its_spread_has_a_sign() -> None:
    draw = random.Random(0)
    assert all(sign([draw.gauss(3, 1) for _ in range(11)]) == 1 for _ in range(200))
    assert all(sign([draw.gauss(-3, 1) for _ in range(11)]) == -1 for _ in range(200))


def test_nothing_and_zero_have_no_sign() -> None:
    assert sign([]) == sign([0.0] * 20) == sign([1.0]) == 0


def test_load_that_both_have_in_an_epoch_does_not_hide_a_difference() -> None:
    """The load moves each of the two far more than they differ."""
    load = [1.0, 9.0, 2.0, 30.0, 4.0, 6.0, 1.5]
    found = compare(figure([10 * one for one in load]), figure([20 * one for one in load]), NAMES)
    assert (found.ratio, found.reason) == (0.5, "")


@pytest.mark.parametrize(
    ("tested", "reference", "reason"),
    [
        ([-11.1, -18, 3, -4, -13, -12, 2], [-1.4, 5, 9, -8, -3, 4, -2], "both are within their spread of zero"),
        ([-11.1, -18, 3, -4, -13, -12, 2], [5, 6, 7, 8, 5, 6, 7], "paceline's is within its spread of zero"),
        ([5, 6, 7, 8, 5, 6, 7], [-5, -6, -7, -8, -5, -6, -7], "gloo's is below zero, which other load"),
        ([5, 6, 7, 8, 5, 6, 7], [6, 5, 7, 9, 4, 5, 7], "the difference is within its spread"),
        ([5.0] * 7, [5.0] * 7, "the difference is within its spread"),
        ([1.0] * 5, [2.0] * 5, "fewer than 6 epochs were timed"),
    ],
)
def test_no_ratio_is_made_of_what_chance_can_do(tested: list[float], reference: list[float], reason: str) -> None:
    found = compare(figure(tested), figure(reference), NAMES)
    assert found.ratio is None
    assert found.reason.startswith(reason)


def test_a_ratio_is_on_the_side_that_the_epochs_are_on() -> None:
    """That of the medians could be on the other one, if the load changes between the epochs."""
    draw = random.Random(0)
    ratios = 0
    for _ in range(500):
        reference = [draw.uniform(1, 100) for _ in range(11)]
        tested = [one + draw.gauss(0.3, 1) for one in reference]
        found = compare(figure(tested), figure(reference), NAMES)
        if found.ratio is not None:
            ratios += 1
            assert (found.ratio > 1) == (sign([a - b for a, b in zip(tested, reference, strict=True)]) > 0)
    assert ratios
