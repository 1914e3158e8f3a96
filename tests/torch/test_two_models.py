"""Two models whose gradients come in one backward pass: each has an exchange of its own, whichever starts first."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_ranks import Ranks

from paceline.torch import GradientBuckets, ShardedOptimizer
from paceline.torch.backend import paceline_group


class Net(nn.Module):
    """One of its parameters is not used in every pass."""

    def __init__(self, width: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.inner = nn.Linear(4, width)
        self.extra = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor, use: bool) -> Tensor:
        y: Tensor = self.inner(x)
        return y * self.extra if use else y


def backward(nets: list[Any], rank: int, size: int, lacking: int, step: int) -> None:
    """On all ranks but the first a parameter of one of the models lacks; who comes first differs, too."""
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(10 * step + rank))
    order = range(len(nets)) if rank % 2 else reversed(range(len(nets)))
    losses = [nets[at](x, rank == 0 or at != lacking).square().sum() for at in order]
    sum(losses[1:], losses[0]).backward()


def reference(nets: list[Net]) -> list[DDP]:
    """DDP's exchanges of one group must start in one order."""
    return [DDP(copy.deepcopy(net), process_group=dist.new_group(), find_unused_parameters=True) for net in nets]


def check_gradient_buckets(rank: int, size: int, widths: tuple[int, int]) -> None:
    nets = [Net(width, seed) for seed, width in enumerate(widths)]
    theirs = reference(nets)
    buckets = [GradientBuckets(net) for net in nets]
    for step in range(4):
        for several in (nets, theirs):
            for net in several:
                net.zero_grad()
            backward(several, rank, size, step % 2, step)
        for net, other in zip(nets, theirs, strict=True):
            for one, right in zip(net.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(one.grad, right.grad)
    for one in buckets:
        one.close()


def check_sharded_optimizers(rank: int, size: int, widths: tuple[int, int]) -> None:
    nets = [Net(width, seed) for seed, width in enumerate(widths)]
    theirs = reference(nets)
    ours = [ShardedOptimizer(net.parameters(), torch.optim.SGD, lr=0.1) for net in nets]
    plain = [torch.optim.SGD(net.parameters(), 0.1) for net in theirs]
    for step in range(4):
        for several, optimizers in ((nets, ours), (theirs, plain)):
            for optimizer in optimizers:
                optimizer.zero_grad()
            backward(several, rank, size, step % 2, step)
            for optimizer in optimizers:
                optimizer.step()
        for net, other in zip(nets, theirs, strict=True):
            for one, right in zip(net.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(one, right)
    for optimizer in ours:
        optimizer.close()


@pytest.mark.parametrize("widths", [(4, 4), (4, 6)])
@pytest.mark.parametrize("check", [check_gradient_buckets, check_sharded_optimizers])
def test_two_models_in_one_backward(ranks: Ranks, check: Callable[..., None], widths: tuple[int, int]) -> None:
    ranks(check, 2, widths=widths)


def check_channels(rank: int, size: int) -> None:
    """A sibling does not outlive its group, nor the exchange that asked for it."""
    world = paceline_group(None)
    buckets = [GradientBuckets(nn.Linear(2, 2)) for _ in range(3)]
    assert len(world._siblings) == 3
    channels = [one._exchange.channel for one in buckets]
    assert len({channel._group.channel for channel in channels}) == 3  # type: ignore[union-attr]
    buckets[0].close()
    world.sibling()
    assert [one._open for one in channels] == [False, True, True]  # type: ignore[union-attr]
    dist.destroy_process_group()
    assert not any(one._open for one in channels)  # type: ignore[union-attr]


def test_channels_end(ranks: Ranks) -> None:
    ranks(check_channels, 2)
