"""Whether a training by one of Paceline's faces ends with the parameters of the same training in one process."""

from __future__ import annotations

import horovod_ranks
import torch
import torch_ranks
import training_runner
from torch import Tensor
from torch_judge import DEADLINE
from training_optimizers import OWN
from training_programs import OURS, Training, gradient
from training_runner import Trained

NOT_ELEMENT_WISE = "does not work element by element"
LOST = {"bf16": 2**-7, "int8": 0.02, "int4": 0.3}
"""What encoding may lose in a step, in parts of the largest gradient."""


def judge(training: Training, ranks: torch_ranks.Ranks, jobs: horovod_ranks.Ranks) -> str:
    """Train. Returns "equal", or "refused" for what torch itself can't do, over Gloo neither, or what can't be sharded.

    Raises AssertionError where other parameters come out.
    """
    right = training_runner.serial(training)
    try:
        told = _trained(training, ranks, jobs, "paceline")
    except AssertionError as error:
        if training.face not in (*OURS, "horovod") and _end(error) == _gloo(training, ranks, jobs):
            return "refused"
        raise
    reasons = {found.refused for found in told}
    if reasons != {""}:
        apart = training.face == "sharded" and training.optimizer in OWN
        assert apart and all(NOT_ELEMENT_WISE in reason for reason in reasons), reasons
        return "refused"
    for rank, found in enumerate(told):
        if training.face in OURS:
            assert found.exchanges == right.exchanges, (
                f"exchanges on rank {rank}: {found.exchanges}\nright: {right.exchanges}"
            )
        for number, (one, other) in enumerate(zip(found.parameters, right.parameters, strict=True)):
            assert _near(training, one, other), f"parameter {number} on rank {rank}: {one}\nright: {other}"
            first = told[0].parameters[number]
            assert training.codec is None or torch.equal(one, first), (
                f"parameter {number} on rank {rank}: {one}\nrank 0: {first}"
            )
    return "equal"


def _near(training: Training, one: Tensor, other: Tensor) -> bool:
    exact = torch.finfo(other.dtype).eps
    if training.codec is None:
        return torch.allclose(one, other, rtol=16 * exact, atol=16 * exact, equal_nan=True)
    drawn = (
        gradient(training, step, rank, number)
        for step in training.steps
        for rank in range(training.size)
        for number in range(len(training.shapes))
    )
    largest = max(float(each.nan_to_num(0.0, 0.0, 0.0).abs().max()) for each in drawn if each is not None)
    lost = len(training.steps) ** 2 * LOST[training.codec] * training.wishes["lr"] * largest
    return torch.allclose(one, other, rtol=0.0, atol=lost + 16 * exact)


def _trained(training: Training, ranks: torch_ranks.Ranks, jobs: horovod_ranks.Ranks, backend: str) -> list[Trained]:
    if training.face == "horovod":
        secret = {"PACELINE_SECRET": "of this test alone"}
        return jobs(training_runner.run, training.size, training=training, deadline=DEADLINE, environment=secret)
    machines = "01" if training.codec else ""
    return ranks(
        training_runner.run,
        training.size,
        training=training,
        deadline=DEADLINE,
        backend=backend,
        placed=machines,
    )


def _gloo(training: Training, ranks: torch_ranks.Ranks, jobs: horovod_ranks.Ranks) -> str:
    """How the training fails over Gloo."""
    try:
        _trained(training, ranks, jobs, "gloo")
    except AssertionError as error:
        return _end(error)
    return ""


def _end(error: AssertionError) -> str:
    """What a rank failed of."""
    return str(error).strip().splitlines()[-1].partition(": ")[2]
