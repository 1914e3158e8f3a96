"""Whether Paceline does with a program of Horovod's API what Horovod says, worked out in one process."""

from __future__ import annotations

import hvd_runner
import torch
from horovod_ranks import Ranks
from hvd_programs import Program
from torch import Tensor
from torch_expected import combined
from torch_judge import DEADLINE, same, told
from torch_programs import Step, values


def judge(program: Program, ranks: Ranks) -> str:
    """Run the program. Returns "equal"; raises AssertionError where something else comes out."""
    environment = {"PACELINE_POLICY": program.policy, "PACELINE_CYCLE_MS": "1", "PACELINE_SECRET": "of this test alone"}
    outcomes = ranks(
        hvd_runner.run,
        program.size,
        machines=program.machines if len(set(program.machines)) > 1 else "",
        environment=environment,
        deadline=DEADLINE,
        program=program,
    )
    for number, each in enumerate(program.rounds):
        there = program.there(number)
        for place, step in enumerate(each.requests):
            group = program.sets[step.group]
            for rank in set(group) & set(there):
                right = _expected(step, group, group.index(rank), there)
                outcome = outcomes[rank][number][place]
                assert same(outcome, right), (
                    f"round {number} on rank {rank}: {step}\nPaceline {told(outcome)}\nright: {right}"
                )
    return "equal"


def _expected(step: Step, group: tuple[int, ...], place: int, there: tuple[int, ...]) -> list[Tensor]:
    """Who has joined gives zeros to a sum, by which an average is divided all the same, and no rows."""
    live = [place for place, rank in enumerate(group) if rank in there]
    if step.call in ("broadcast", "broadcast_"):
        return [values(step, step.root)]
    if step.call == "allgather":
        return [torch.cat([values(step, other, 0, step.splits[0][other]) for other in live])]
    if step.call == "alltoall":
        rows = [splits[place] for splits in step.splits]
        return [
            torch.cat([values(step, other, place, rows[other]) for other in live]),
            torch.tensor(rows, dtype=torch.int32),
        ]
    parts = range(3) if step.call == "grouped_allreduce" else range(1)
    zeros = [torch.zeros_like(values(step, 0))] * (len(group) - len(live))
    whole = [combined(step, [*(values(step, other, part) for other in live), *zeros]) for part in parts]
    assert all(one is not None for one in whole)
    if step.call != "reducescatter":
        return [one for one in whole if one is not None]
    return [torch.tensor_split(whole[0], len(group))[place]]  # type: ignore[arg-type]
