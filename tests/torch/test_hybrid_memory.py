"""What a step holds of the model's results: nothing when it is over, without waiting for a garbage collection."""

from __future__ import annotations

import gc
import weakref
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch_ranks import Ranks

import paceline.torch
from paceline.torch import freed_memory
from paceline.torch.compat import PIPELINES, torch_version

pytestmark = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")

MICROBATCHES = 4


class Heads(nn.Module):
    """Two results, in a structure."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
        self.one, self.other = nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        x = self.body(x)
        return {"both": [self.one(x), self.other(x)]}


def check_results(rank: int, size: int, schedule: str) -> None:
    held: list[weakref.ref[Tensor]] = []
    most = 0

    def loss(result: dict[str, list[Tensor]], target: Tensor) -> Tensor:
        nonlocal most
        held.extend(map(weakref.ref, result["both"]))
        most = max(most, sum(one() is not None for one in held))
        return sum((one.sum() for one in result["both"]), target.sum())

    torch.manual_seed(0)
    inputs, target = torch.randn(MICROBATCHES, 8), torch.zeros(MICROBATCHES, 1)
    model = paceline.torch.hybrid(Heads(), inputs, loss, partitions=size, microbatches=MICROBATCHES, schedule=schedule)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            model.step(inputs, target)
    finally:
        gc.enable()
    last = schedule.startswith("ZBV") == (rank == 0)
    assert len(held) == (2 * 3 * MICROBATCHES if last else 0)
    assert not any(one() is not None for one in held)
    if schedule == "1F1B":
        assert most == (2 if last else 0)
    model.close()


def check_kept(rank: int, size: int, memory: str) -> None:
    told: list[tuple[int, int]] = []
    with patch.object(freed_memory, "_set", lambda *thresholds: told.append(thresholds)):
        model = paceline.torch.hybrid(
            nn.Sequential(nn.Linear(64, 1 << 16), nn.Tanh(), nn.Linear(1 << 16, 64)),
            torch.randn(8, 64),
            nn.MSELoss(),
            partitions=size,
            microbatches=2,
            memory=memory,
        )
    kept = told[-1][1]
    assert model.prediction.short[rank] == (memory != "1000G")
    assert (kept > model.prediction.memory[rank]) == (memory == "1000G")
    model.close()


@pytest.mark.parametrize("memory", ["1000G", "113MiB"])
def test_what_a_step_frees_is_kept_for_the_next_where_there_is_room(ranks: Ranks, memory: str) -> None:
    ranks(check_kept, 2, memory=memory)


@pytest.mark.parametrize("schedule", ["1F1B", "GPipe", "ZBVZeroBubble"])
def test_results_are_freed_with_their_backward(ranks: Ranks, schedule: str) -> None:
    ranks(check_results, 2, schedule=schedule)
