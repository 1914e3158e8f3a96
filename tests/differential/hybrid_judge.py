"""Whether a model in partitions trains as the whole model does, or is refused with a reason before it begins."""

from __future__ import annotations

import re
from typing import Any

import hybrid_runner
import torch
from hybrid_programs import Training
from hybrid_runner import Trained
from torch import Tensor
from torch_judge import DEADLINE
from torch_ranks import Ranks

TOLERANCE = {torch.float64: 1e-9, torch.float32: 0.1}
"""Of a gradient, in parts of the largest; float32 is under autocast, whose numbers have 8 bits."""
REASONS = (
    r"the forward of Own1 itself ",
    r"the forward of Own1 can't be traced",
    r"draws random numbers of Python or NumPy",
    r"uses the parameter \S+, which is none of its module's",
    r"can't be cut into \d+ stages",
)
"""Why a model may be refused."""


def judge(training: Training, ranks: Ranks) -> str:
    """Train. Returns "equal", or "refused" for a model that can't be divided, or that fails by itself.

    Raises AssertionError where other gradients or another state come out.
    """
    torch.set_num_threads(1)
    try:
        right = hybrid_runner.serial(training)
    except Exception as error:
        failure: Exception | None = error
    else:
        failure = None
    try:
        told: list[Trained] = ranks(
            hybrid_runner.run, training.size, training=training, deadline=DEADLINE, timeout=20.0
        )
    except AssertionError as error:
        if failure is not None and "did not finish within" not in str(error):
            return "refused"
        raise
    if failure is not None:
        return "refused"  # there is nothing right
    reasons = [one.refused for one in told]
    if any(reasons):
        assert all(kind == "HybridError" and _known(words) for kind, words in filter(None, reasons)), reasons
        assert all(reasons), reasons
        return "refused"
    for rank, found in enumerate(told):
        _compare(training, found, right[found.replica], f"rank {rank}, cuts {found.cuts}")
    return "equal"


def _known(words: str) -> bool:
    return any(re.search(reason, words) for reason in REASONS)


def _compare(training: Training, found: Trained, right: Trained, where: str) -> None:
    tolerance = TOLERANCE[hybrid_runner.dtype_of(training)]
    for number, (mine, their) in enumerate(zip(found.steps, right.steps, strict=True)):
        here = f"step {number} on {where}"
        assert _near(torch.tensor(mine.loss), torch.tensor(their.loss), tolerance, 1.0), (
            f"{here}: the loss is {mine.loss}, right: {their.loss}"
        )
        if training.alone[number]:
            continue  # of a weight that partitions share each of them has a part, until the next exchange
        largest = max((float(one.abs().max()) for one in their.gradients.values() if one is not None), default=0.0)
        for name, gradient in mine.gradients.items():
            wanted = their.gradients[name]
            if wanted is None and gradient is not None and training.loss != "all" and not gradient.any():
                continue  # partitions get zeros for what crosses a cut and is returned, but left out of the loss
            assert (gradient is None) == (wanted is None), f"{here}: {name}: {gradient}\nright: {wanted}"
            if gradient is not None and wanted is not None:
                assert _near(gradient, wanted, tolerance, largest), f"{here}: {name}: {gradient}\nright: {wanted}"
    _compare_all(found.state, right.state, tolerance, f"the state on {where}")
    assert found.output is not None and right.output is not None
    assert found.output[0] == right.output[0], f"{where}: it returns {found.output[0]}, right: {right.output[0]}"
    numbers = range(len(right.output[1]))
    mine, their = (dict(zip(numbers, one, strict=True)) for one in (found.output[1], right.output[1]))
    _compare_all(mine, their, tolerance, f"what is returned on {where}")


def _compare_all(found: Any, right: Any, tolerance: float, where: str) -> None:
    assert list(found) == list(right), f"{where}: {list(found)}, right: {list(right)}"
    for name, wanted in right.items():
        mine = found[name]
        alike = _near(mine, wanted, tolerance, 1.0) if isinstance(wanted, Tensor) else mine == wanted
        assert alike, f"{where}: {name}: {mine}\nright: {wanted}"


def _near(one: Tensor, other: Tensor, tolerance: float, scale: float) -> bool:
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and torch.allclose(one.double(), other.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    )
