"""ZeroRedundancyOptimizer: each rank keeps the state of its share; the steps are the whole optimizer's."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_ranks import Ranks


def check_steps(rank: int, size: int, as_bucket_view: bool) -> None:
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 3)).double()
    ddp = DDP(copy.deepcopy(reference))
    sharded = ZeroRedundancyOptimizer(
        ddp.parameters(), torch.optim.Adam, parameters_as_bucket_view=as_bucket_view, lr=0.05
    )
    whole_optimizer = torch.optim.Adam(reference.parameters(), lr=0.05)
    for step in range(4):
        whole = torch.randn(size * 2, 5, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        for net, optimizer, data in (
            (ddp, sharded, whole[2 * rank : 2 * rank + 2]),
            (reference, whole_optimizer, whole),
        ):
            optimizer.zero_grad()
            net(data).square().mean().backward()
            optimizer.step()
    for left, right in zip(ddp.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(left, right)
    sharded.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(sharded.state_dict()["state"]) == 4
    dist.barrier()


def test_steps(ranks: Ranks) -> None:
    for as_bucket_view in (False, True):
        ranks(check_steps, 3, as_bucket_view=as_bucket_view)
