"""Whether a training by one of Paceline's faces ends with the parameters of the same training in one process."""

from __future__ import annotations

import torch
import training_runner
from torch import Tensor
from torch_judge import DEADLINE
from torch_ranks import Ranks
from training_programs import Training


def judge(training: Training, ranks: Ranks) -> str:
    """Train. Returns "equal", or "refused" for what torch itself can't do, over Gloo neither.

    Raises AssertionError where other parameters come out.
    """
    right = training_runner.serial(training)
    try:
        told = _trained(training, ranks, "paceline")
    except AssertionError as error:
        if training.face not in ("buckets", "sharded") and _end(error) == _gloo(training, ranks):
            return "refused"
        raise
    for rank, found in enumerate(told):
        for number, (one, other) in enumerate(zip(found, right, strict=True)):
            exact = torch.finfo(other.dtype).eps
            assert torch.allclose(one, other, rtol=16 * exact, atol=16 * exact, equal_nan=True), (
                f"parameter {number} on rank {rank}: {one}\nright: {other}"
            )
    return "equal"


def _trained(training: Training, ranks: Ranks, backend: str) -> list[list[Tensor]]:
    return ranks(training_runner.run, training.size, training=training, deadline=DEADLINE, backend=backend)


def _gloo(training: Training, ranks: Ranks) -> str:
    """How the training fails over Gloo."""
    try:
        _trained(training, ranks, "gloo")
    except AssertionError as error:
        return _end(error)
    return ""


def _end(error: AssertionError) -> str:
    """What a rank failed of."""
    return str(error).strip().splitlines()[-1].partition(": ")[2]
