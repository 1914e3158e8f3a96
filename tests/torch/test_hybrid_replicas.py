"""What replicas of a model in partitions owe each other: gradients once they are there, and word of a lost rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from jobs import PROGRAMS, TORCH, run
from rank_loss import lose_one
from torch import Tensor, nn
from torch_ranks import Ranks

import paceline.torch
from paceline.torch.compat import PIPELINES, torch_version
from paceline.torch.mean_bucket import MeanBucket
from paceline.torch.partitioned import replicas
from paceline.torch.partitioned.stage import Stage

pytestmark = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")


@pytest.mark.parametrize("when", ["in", "between"])
def test_a_rank_that_is_killed_is_named(when: str, tmp_path: Path) -> None:
    """To its own replica, which waits in the pipeline, and to the other one, which waits for its gradients."""
    lose_one(4, PROGRAMS / "hybrid_losing_a_rank.py", "kill", when, folder=tmp_path, timeout=200, imports=TORCH)


def test_what_is_encoded_between_machines(tmp_path: Path) -> None:
    run(2, Path(__file__).with_name("hybrid_encoded.py"), output=tmp_path, imports=TORCH)


class Sometimes(nn.Module):
    """What it does depends on its input, so that it stays whole, and some inputs leave a parameter unused."""

    def __init__(self) -> None:
        super().__init__()
        self.usual, self.spare = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.usual(x)
        return y + self.spare(x) if (x > 100).any() else y


def check_unused(rank: int, size: int, schedule: str) -> None:
    """In a replica, in one of its microbatches, and in nobody's."""

    def made() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(Sometimes(), nn.Tanh(), nn.Linear(8, 8), nn.Identity(), Sometimes(), nn.Linear(8, 8))

    reference, example = made(), torch.randn(8, 8, dtype=torch.float64)
    reference.double()
    hybrid = paceline.torch.hybrid(
        made().double(), example, nn.functional.mse_loss, partitions=2, replicas=2, microbatches=4, schedule=schedule
    )
    whole = dict(reference.named_parameters())
    for large in ([[], []], [[2], []], [[], [5]], [range(8), range(8)], [[], []]):
        batches = []
        for replica in range(2):
            batches.append(example.roll(replica, 0).clone())
            batches[-1][list(large[replica])] += 1000.0
        reference.zero_grad()
        hybrid.zero_grad()
        for batch in batches:
            for part in batch.chunk(4):
                (nn.functional.mse_loss(reference(part), part) / 8).backward()
        hybrid.step(batches[hybrid.replica], batches[hybrid.replica])
        for name, parameter in hybrid.named_parameters():
            expected = whole[name].grad
            assert (parameter.grad is None) == (expected is None), (name, large)
            if expected is not None:
                torch.testing.assert_close(parameter.grad, expected, rtol=1e-12, atol=1e-9)
    assert any(one.grad is None for one in whole.values())
    hybrid.close()


@pytest.mark.parametrize("schedule", ["1F1B", "ZBVZeroBubble"])
def test_a_parameter_that_one_replica_does_not_use(ranks: Ranks, schedule: str) -> None:
    ranks(check_unused, 4, schedule=schedule)


def check_overlap(rank: int, size: int, schedule: str) -> None:
    """The order of events on a rank; what a stage sends is what the stage before it waits for."""
    events: list[str] = []
    start, sends = MeanBucket.start, Stage.get_bwd_send_ops

    def started(bucket: MeanBucket, group: Any) -> dist.Work:
        events.append("exchange")
        return start(bucket, group)

    def sending(stage: Stage, number: int) -> Any:
        events.append("send")
        return sends(stage, number)

    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(8)))
    example = torch.randn(8, 16)
    with patch.object(replicas, "BUCKET_BYTES", 16 * 17 * 4):  # of a layer
        hybrid = paceline.torch.hybrid(
            model, example, nn.functional.mse_loss, partitions=2, replicas=2, microbatches=4, schedule=schedule
        )
    parameters = list(hybrid.parameters())
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda _: events.append("gradient"))  # type: ignore[no-untyped-call]
    with patch.object(MeanBucket, "start", started), patch.object(Stage, "get_bwd_send_ops", sending):
        hybrid.step(example, example)
    assert events.count("exchange") == len(parameters) // 2 >= 2
    assert events.count("gradient") == 4 * len(parameters)
    before = events[: events.index("exchange")]
    assert before.count("gradient") < 3 * len(parameters) + 3  # the last microbatch's backward goes on
    assert "exchange" not in events[-1 - events[::-1].index("gradient") :]
    # The partition before this one begins its last backward with what is sent after all exchanges have begun.
    assert "exchange" not in events[-1 - events[::-1].index("send") :]
    hybrid.close()


@pytest.mark.parametrize("schedule", ["1F1B", "GPipe"])
def test_gradients_are_exchanged_while_earlier_stages_compute(ranks: Ranks, schedule: str) -> None:
    ranks(check_overlap, 4, schedule=schedule)
