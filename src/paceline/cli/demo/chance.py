"""Decides what can be told from chance, and makes ratios of nothing else.

The copies train in turn, so each epoch gives a pair of values under about the same load. A difference counts if so many
epochs have its sign that a coin would do so in at most 5 % of the runs (the sign test, on both sides). What does not
count is within its spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import comb
from statistics import median

from paceline.cli.demo.figure import Figure

CHANCE = 0.05


@dataclass(frozen=True)
class Comparison:
    """A ratio, or None and the reason why there is none."""

    ratio: float | None
    reason: str = ""


def compare(tested: Figure, reference: Figure, names: tuple[str, str]) -> Comparison:
    """Compare a figure of two backends by their epochs. names: the backends' names, for the reason.

    The ratio is the median of the epochs' ratios: load that both have in an epoch is not in it.
    """
    epochs = len(tested.epochs)
    if needed(epochs) > epochs:
        enough = next(epochs for epochs in count(1) if needed(epochs) <= epochs)
        return Comparison(None, f"fewer than {enough} epochs were timed, too few to tell a difference from chance")
    signs = [sign(of.epochs) for of in (tested, reference)]
    if min(signs) <= 0:
        return Comparison(None, _not_above_zero(names, signs))
    pairs = list(zip(tested.epochs, reference.epochs, strict=True))
    if not sign([ours - theirs for ours, theirs in pairs]):
        return Comparison(None, "the difference is within its spread")
    return Comparison(median(ours / theirs if theirs else float("inf") for ours, theirs in pairs))


def _not_above_zero(names: tuple[str, str], signs: list[int]) -> str:
    if signs == [0, 0]:
        return "both are within their spread of zero"
    words = {0: "is within its spread of zero", -1: "is below zero, which other load must have caused"}
    return " and ".join(f"{name}'s {words[of]}" for name, of in zip(names, signs, strict=True) if of <= 0)


def sign(values: Sequence[float]) -> int:
    """Return 1 if clearly more than half of such values are above zero, -1 if below, and 0 if that can't be told."""
    enough = needed(len(values))
    above, below = sum(value > 0 for value in values), sum(value < 0 for value in values)
    return (above >= enough) - (below >= enough)


def needed(epochs: int) -> int:
    """Return how many of the epochs must agree; more than there are if they are too few."""
    as_extreme = 0
    for agreeing in range(epochs, epochs // 2, -1):
        as_extreme += 2 * comb(epochs, agreeing)
        if as_extreme > CHANCE * 2**epochs:
            return agreeing + 1
    return 1
