"""Ranks with unequal amounts of data, by the lines that docs/how-to/uneven.md gives."""

from __future__ import annotations

import pytest
import torch.distributed as dist
import uneven
from harness import Ranks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from paceline.torch import GradientBuckets


def check(rank: int, size: int, kind: str) -> None:
    model = uneven.model()
    if kind == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    taken = DistributedDataParallel(model) if kind == "ddp" else model
    buckets = GradientBuckets(model) if kind == "buckets" else None
    names = {"dist": dist, "model": taken, "optimizer": uneven.optimizer(model), "loader": uneven.loader(rank)}
    uneven.train("With torch", names)
    parameters = [each.full_tensor() if kind == "fsdp" else each for each in model.parameters()]
    uneven.check(parameters, size)
    if buckets is not None:
        buckets.close()


@pytest.mark.parametrize("kind", ["ddp", "buckets", "fsdp"])
def test_weighted_steps_are_those_of_one_process(ranks: Ranks, kind: str) -> None:
    ranks(check, 3, kind=kind)
