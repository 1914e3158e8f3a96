"""SyncBatchNorm refuses CPU tensors, so this is its exchange: all_gather of statistics, then all_reduce."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch_ranks import Ranks


def check_statistics(rank: int, size: int) -> None:
    channels = 5
    whole = torch.randn(size * 4, channels, generator=torch.Generator().manual_seed(0))
    part = whole[4 * rank : 4 * rank + 4]
    mean, variance = part.mean(0), part.var(0, unbiased=False)
    combined = torch.cat([mean, (variance + 1e-5).rsqrt(), torch.full((1,), 4.0)])
    gathered = torch.empty(1, combined.numel() * size)
    dist.all_gather_into_tensor(gathered, combined, async_op=False)
    means, inverses, counts = gathered.reshape(size, -1).split([channels, channels, 1], dim=1)
    assert counts.eq(4).all()
    torch.testing.assert_close(means.mean(0), whole.mean(0))
    variances = inverses.pow(-2) - 1e-5 + means.square() - whole.mean(0).square()
    torch.testing.assert_close(variances.mean(0), whole.var(0, unbiased=False), rtol=1e-4, atol=1e-5)
    sums = torch.cat([part.sum(0), part.square().sum(0)])
    dist.all_reduce(sums, dist.ReduceOp.SUM, async_op=False)
    torch.testing.assert_close(sums, torch.cat([whole.sum(0), whole.square().sum(0)]))


def test_statistics(ranks: Ranks) -> None:
    ranks(check_statistics, 3)
