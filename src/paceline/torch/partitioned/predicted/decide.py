"""The shape with which a step is predicted to be quickest, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.formats.sizes import show_bytes, show_seconds
from paceline.topology.discover import Placement
from paceline.torch.partitioned.budget import Budget
from paceline.torch.partitioned.cut import CannotCut, Chain
from paceline.torch.partitioned.predicted.predict import Prediction, best_ends, predict
from paceline.torch.partitioned.predicted.shape import Shape

_TIE = 0.01
"""A fraction of a step's time that does not decide: among ties the first shape wins, with the fewest partitions."""


@dataclass(frozen=True)
class Decision:
    """The best shape's prediction, and why it is the best, in one sentence. predictions: of all shapes that fit."""

    best: Prediction
    reason: str
    predictions: tuple[Prediction, ...]


def decide(
    shapes: Sequence[Shape],
    chains: Callable[[int], Chain],
    placement: Placement,
    budget: Budget,
) -> Decision:
    """Return the quickest of these shapes that fits into the budget of each rank.

    chains: the model as a chain for microbatches of so many samples. Raises CannotCut if there is none, as for the last
    shape.
    """
    found: list[Prediction] = []
    failed: list[CannotCut] = []
    for shape in shapes:
        chain = chains(shape.samples)
        try:
            ends = best_ends(chain, shape, placement, budget)
        except CannotCut as error:
            failed.append(error)
        else:
            found.append(predict(chain, shape, placement, ends, budget))
    if not found:
        raise failed[-1]
    quickest = min(prediction.seconds for prediction in found)
    best = next(prediction for prediction in found if prediction.seconds <= (1 + _TIE) * quickest)
    return Decision(best, _reason(best, found, len(failed), budget.memory), tuple(found))


def _reason(best: Prediction, found: Sequence[Prediction], failed: int, available: float) -> str:
    takes = f"{best.shape} by {best.shape.schedule.name}: a step is predicted to take {show_seconds(best.seconds)}"
    needs = f"a rank needs {show_bytes(max(best.memory))}"
    needs += f" of its {show_bytes(round(available))}" if math.isfinite(available) else ""
    kept = min(stage.kept for stage in best.stages)
    needs += "" if kept == 1 else f", and one keeps only {kept:.0%} of its activations"
    others = [one for one in found if _divided(one) != _divided(best)]
    if others:
        other = min(others, key=lambda one: one.seconds)
        takes += f" and {show_seconds(other.seconds)} with {other.shape}"
    side = _side_by_side(best, found)
    unfit = f", in which {failed} other shape{'s' * (failed > 1)} did not fit" if failed else ""
    return f"{takes}; {side}{needs}{unfit}"


def _divided(one: Prediction) -> tuple[int, int]:
    return one.shape.layout.partitions, one.shape.layout.replicas


def _side_by_side(best: Prediction, found: Sequence[Prediction]) -> str:
    """Return a clause that names what shares machines, "" if that makes no difference."""
    side = best.shape.layout.side_by_side
    others = [one.seconds for one in found if _divided(one) == _divided(best) and one.shape.layout.side_by_side != side]
    if not others:
        return ""
    words = ["the partitions of a replica", "the replicas of a partition"]
    this, other = words if side == "partitions" else words[::-1]
    return f"{this} share machines where they can (with {other} there, {show_seconds(min(others))}); "
