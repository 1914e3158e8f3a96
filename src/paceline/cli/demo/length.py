"""The length of the demo's training: fewer epochs on a slow or loaded machine, rather than a longer run."""

EPOCHS = 12
LEAST_EPOCHS = 5
"""With 3, 4, 5, 6, 8 and 12 epochs 98.1, 98.3, 98.6, 99.2, 99.2 and 99.2 % of the test images are right."""
SECONDS = 90.0
"""The most seconds that the demo takes, unless the fewest epochs take longer."""
_END_SHARE = 0.25
"""The time after the last epoch (figures, the end of the ranks, the table), as a share of the start."""
_COMBINED_BATCH = 64


def combined_batch(ranks: int) -> int:
    """Return the images per step, all ranks together: about 64, the same number for each rank."""
    return ranks * max(1, round(_COMBINED_BATCH / ranks))


def epochs_in_time(begun: float, first: float, now: float) -> int:
    """Return how many epochs to train, from three moments of one clock, in seconds.

    begun: when the command began. first: when the first epoch of all copies began. now: when it ended.
    """
    left = begun + SECONDS - _END_SHARE * (first - begun) - now
    return min(EPOCHS, max(LEAST_EPOCHS, 1 + int(left / (now - first))))
