"""How long the demo trains."""

import pytest

from paceline.cli.demo.length import EPOCHS, LEAST_EPOCHS, SECONDS, combined_batch, epochs_in_time


@pytest.mark.parametrize(
    ("start", "first_epoch", "epochs"),
    [
        (8.0, 3.0, EPOCHS),  # two quiet cores
        (20.0, 8.0, 8),
        (40.0, 5.0, 8),
        (20.0, 60.0, LEAST_EPOCHS),  # it takes longer, because fewer would not reach the accuracy
        (300.0, 60.0, LEAST_EPOCHS),
        (0.0, 1e-9, EPOCHS),
    ],
)
def test_a_slow_machine_trains_fewer_epochs(start: float, first_epoch: float, epochs: int) -> None:
    assert epochs_in_time(1e6, 1e6 + start, 1e6 + start + first_epoch) == epochs
    if epochs > LEAST_EPOCHS:
        assert start + epochs * first_epoch + start / 4 <= SECONDS


def test_ranks_have_equal_parts_of_a_batch() -> None:
    for ranks in (1, 2, 3, 4, 5, 48, 200):
        assert combined_batch(ranks) % ranks == 0
        assert combined_batch(ranks) >= ranks
    assert combined_batch(2) == combined_batch(4) == 64
