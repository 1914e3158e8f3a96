"""ShardedOptimizer's checkpoints: saved by any number of ranks or the plain optimizer, and loaded by any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from sharded_training import CLASSES, Net, groups, model
from torch import Tensor
from torch.optim import Optimizer
from torch_ranks import Ranks

from paceline.torch import ShardedOptimizer

PLAIN = 0
"""In place of a number of ranks: one process with the wrapped optimizer."""


def train(net: Net, optimizer: Optimizer, steps: range) -> None:
    """With whole numbers as gradients, the same on each rank, so that their mean is exact on any number of them."""
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for step in steps:
        optimizer.zero_grad()
        random = torch.Generator().manual_seed(step)
        for parameter in net.parameters():
            if parameter.requires_grad:
                numbers = torch.randint(-8, 8, parameter.shape, generator=random).to(parameter.dtype)
                (parameter * numbers).sum().backward()
        optimizer.step()
        schedule.step()


def optimizer_of(net: Net, size: int, name: str) -> Optimizer:
    kind, options = CLASSES[name]
    return ShardedOptimizer(groups(net), kind, bucket_bytes=6000, **options) if size else kind(groups(net), **options)


def save(rank: int, size: int, file: str, name: str) -> None:
    net = model()
    optimizer = optimizer_of(net, size, name)
    train(net, optimizer, range(3))
    if isinstance(optimizer, ShardedOptimizer):
        optimizer.consolidate_state_dict(to=size - 1)
    if rank == max(size - 1, 0):
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, file)


def resume(rank: int, size: int, file: str, name: str) -> list[Tensor]:
    net = model(5)
    optimizer = optimizer_of(net, size, name)
    train(net, optimizer, range(7, 9))
    saved = torch.load(file)
    net.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    train(net, optimizer, range(3, 6))
    return [parameter.detach().clone() for parameter in net.parameters()]


def uninterrupted(name: str) -> list[Tensor]:
    net = model()
    optimizer = optimizer_of(net, PLAIN, name)
    train(net, optimizer, range(3))
    train(net, optimizer, range(3, 6))
    return [parameter.detach() for parameter in net.parameters()]


# Not NAdam: the plain one does not go on so either, as torch loads a number of its state with another dtype.
@pytest.mark.parametrize("name", ["momentum", "adamw", "adagrad"])
@pytest.mark.parametrize(("savers", "loaders"), [(2, 3), (3, 2), (4, 1), (PLAIN, 2), (3, PLAIN)])
def test_training_goes_on_as_if_uninterrupted(
    ranks: Ranks, tmp_path: Path, savers: int, loaders: int, name: str
) -> None:
    given = {"file": str(tmp_path / "checkpoint"), "name": name}
    if savers:
        ranks(save, savers, **given)
    else:
        save(0, PLAIN, **given)
    resumed = ranks(resume, loaders, **given) if loaders else [resume(0, PLAIN, **given)]
    expected = uninterrupted(name)
    for parameters in resumed:
        for ours, theirs in zip(parameters, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def check_what_is_wrong_is_said(rank: int, size: int) -> None:
    net = model()
    optimizer = ShardedOptimizer(net.parameters(), torch.optim.AdamW)
    train(net, optimizer, range(1))
    with pytest.raises(RuntimeError, match="call consolidate_state_dict"):
        optimizer.state_dict()
    optimizer.consolidate_state_dict()
    if rank == 0:
        optimizer.state_dict()
    else:
        with pytest.raises(RuntimeError, match="call consolidate_state_dict"):
            optimizer.state_dict()
    optimizer.consolidate_state_dict(None)
    saved: dict[str, Any] = optimizer.state_dict()
    train(net, optimizer, range(1, 2))
    with pytest.raises(RuntimeError, match="after the last step"):
        optimizer.state_dict()
    saved["state"] = {max(saved["state"]): {"exp_avg": torch.ones(7, 2)}}  # one rank alone owns all of it
    with pytest.raises(ValueError, match=r"state 'exp_avg' has shape \[7, 2\], not its parameter's"):
        optimizer.load_state_dict(saved)
    saved["param_groups"] *= 2
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimizer.load_state_dict(saved)
    nothing: Any = None
    with pytest.raises(TypeError, match=r"takes the dict that state_dict\(\) returned, not NoneType"):
        optimizer.load_state_dict(nothing)
    for no_state in ({}, {"state": [], "param_groups": saved["param_groups"][:1]}, {"state": {}, "param_groups": [{}]}):
        with pytest.raises(ValueError, match="this dict is no optimizer's state"):
            optimizer.load_state_dict(no_state)
    dist.barrier()


def test_what_is_wrong_is_said(ranks: Ranks) -> None:
    ranks(check_what_is_wrong_is_said, 2)
