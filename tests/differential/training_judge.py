"""Whether a training by one of Paceline's faces ends with the parameters of the same training in one process."""

from __future__ import annotations

import torch
import training_runner
from torch_judge import DEADLINE
from torch_ranks import Ranks
from training_programs import Training


def judge(training: Training, ranks: Ranks) -> str:
    """Train. Returns "equal"; raises AssertionError where other parameters come out."""
    right = training_runner.serial(training)
    for rank, found in enumerate(ranks(training_runner.run, training.size, training=training, deadline=DEADLINE)):
        for number, (one, other) in enumerate(zip(found, right, strict=True)):
            exact = torch.finfo(other.dtype).eps
            assert torch.allclose(one, other, rtol=16 * exact, atol=16 * exact, equal_nan=True), (
                f"parameter {number} on rank {rank}: {one}\nright: {other}"
            )
    return "equal"
