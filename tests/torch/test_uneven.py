"""Ranks with unequal amounts of data, by the lines that docs/faster/data.md gives."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import uneven
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch_ranks import Ranks

from paceline.torch import GradientBuckets


def check(rank: int, size: int, kind: str) -> None:
    model = uneven.model()
    if kind == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    taken = DistributedDataParallel(model) if kind == "ddp" else model
    buckets = GradientBuckets(model) if kind == "buckets" else None
    names = {"dist": dist, "model": taken, "optimizer": uneven.optimizer(model), "loader": uneven.loader(rank)}
    uneven.train("With PyTorch", names)
    parameters = [each.full_tensor() if kind == "fsdp" else each for each in model.parameters()]
    uneven.check(parameters, size)
    if buckets is not None:
        buckets.close()


@pytest.mark.parametrize("kind", ["ddp", "buckets", "fsdp"])
def test_weighted_steps_are_those_of_one_process(ranks: Ranks, kind: str) -> None:
    ranks(check, 3, kind=kind)


def check_join(rank: int, size: int, static: bool) -> None:
    """As Gloo: where a rank has ended, gradients are of those that go on, or of all."""
    found = []
    for backend in ("gloo", "paceline"):
        net = nn.Linear(1, 1, bias=False)
        model = DistributedDataParallel(net, process_group=dist.new_group(backend=backend))
        mine = []
        with Join([model], divide_by_initial_world_size=static):
            for step in range(2 + rank):
                model.zero_grad()
                model(torch.full((1, 1), 8.0 * (step + 1))).sum().backward()
                assert net.weight.grad is not None
                mine.append(net.weight.grad.item())
        found.append(mine)
    assert found[0] == found[1] == [8.0, 16.0, 12.0 if static else 24.0][: 2 + rank]


@pytest.mark.parametrize("static", [False, True])
def test_join_is_gloos(ranks: Ranks, static: bool) -> None:
    ranks(check_join, 2, static=static, deadline=120)
