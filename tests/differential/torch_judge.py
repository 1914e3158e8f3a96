"""Whether Paceline does with a program what torch says."""

from __future__ import annotations

from typing import Any

import torch
import torch_runner
from torch import Tensor
from torch_expected import REFUSED, Results, expected
from torch_programs import Program, Step
from torch_ranks import Ranks
from torch_runner import Outcome

DEADLINE = 100.0
"""Seconds in which a program must have ended."""
REFUSALS = ("ValueError", "TypeError", "NotImplementedError", "RuntimeError: all_reduce: reduce_op")
"""How calls are refused that are not defined."""
_BY_TORCH = "RuntimeError: view_as_real doesn't work on unresolved conjugated tensors"
"""torch.distributed itself makes pairs of complex numbers before any backend sees them."""


def judge(program: Program, ranks: Ranks) -> str:
    """Run the program. Returns "equal", or "refused" where a call was refused that is not defined.

    Raises AssertionError, which says what Gloo does, where something else comes out.
    """
    outcomes = ranks(torch_runner.run, program.size, program=program, deadline=DEADLINE, timeout=DEADLINE / 2)
    verdict = "equal"
    for number, step in enumerate(program.steps):
        group = program.groups[step.group]
        for rank, right in zip(group, expected(step, len(group)), strict=True):
            outcome = outcomes[rank][number]
            if _refused(step, outcome, right):
                verdict = "refused"
            elif isinstance(right, str) or (right is not None and not same(outcome, right)):
                raise AssertionError(
                    f"step {number} on rank {rank}: {step}\nPaceline {told(outcome)}\nright: {right}\n"
                    f"Gloo {_gloo(program, ranks, rank, number)}"
                )
    return verdict


def _refused(step: Step, outcome: Outcome, right: Results) -> bool:
    """Whether a call was refused that is not defined, or that torch itself refuses."""
    kind, words = outcome
    if kind != "error":
        return False
    by_torch = step.layout == "conjugate" and words.startswith(_BY_TORCH)
    return by_torch or (right == REFUSED and words.startswith(REFUSALS))


def _gloo(program: Program, ranks: Ranks, rank: int, number: int) -> str:
    """What Gloo does in this step."""
    try:
        outcomes: list[list[Outcome]] = ranks(
            torch_runner.run, program.size, program=program, deadline=DEADLINE, timeout=5.0, backend="gloo"
        )
    except AssertionError as error:
        return f"fails: {str(error)[-300:]}"
    return told(outcomes[rank][number])


def same(outcome: Outcome, right: list[Tensor]) -> bool:
    """Whether these tensors came out, to the bit."""
    found: Any = outcome[1]
    return (
        outcome[0] == "values"
        and len(found) == len(right)
        and all(
            one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
            for one, other in zip(found, right, strict=True)
        )
    )


def told(outcome: Outcome) -> str:
    """The outcome in words."""
    return f"{outcome[0]}: {str(outcome[1])[:600]}"
