"""ShardedOptimizer: what it refuses, by one sentence on every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch_ranks import Ranks

from paceline.torch import ShardedOptimizer


def check_ranks_disagree(rank: int, size: int) -> None:
    wide = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 5 if rank == 2 else 4))
    with pytest.raises(
        ValueError, match=r'on parameter 2 \("1.weight"\): float32\[4, 4\] in group 0 on rank 0, .*5, 4.*2'
    ):
        ShardedOptimizer(wide.named_parameters(), torch.optim.SGD)
    some = list(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).parameters())
    with pytest.raises(ValueError, match=r"on parameter 3: float32\[4\] in group 0 on rank 0, nothing on rank 1"):
        ShardedOptimizer(some[:3] if rank == 1 else some, torch.optim.SGD)
    with pytest.raises(ValueError, match="on the optimizer: SGD on rank 0, Adam on rank 1"):
        ShardedOptimizer(some, torch.optim.Adam if rank == 1 else torch.optim.SGD)
    with pytest.raises(ValueError, match=r"on the buckets: bucket_bytes=100, .* on rank 0, bucket_bytes=200"):
        ShardedOptimizer(some, torch.optim.SGD, bucket_bytes=200 if rank == 1 else 100)
    images = nn.Conv2d(2, 2, 2)
    if rank == 1:
        images.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"parameter 0: float32\[2, 2, 2, 2\] .* in memory order \[8, 1, 4, 2\]"):
        ShardedOptimizer(images.parameters(), torch.optim.SGD)
    some[0].requires_grad_(rank != 1)
    with pytest.raises(ValueError, match=r"parameter 0: .* on rank 0, .*frozen on rank 1"):
        ShardedOptimizer(some, torch.optim.SGD)
    dist.barrier()


class Lamb(torch.optim.SGD):
    """What makes LAMB what it is: steps as large as the parameter."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter -= group["lr"] * parameter.norm() * parameter.grad / parameter.grad.norm()


class OneDistance(torch.optim.SGD):
    """What makes Prodigy and D-Adaptation what they are: an estimate over all parameters scales the step."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                found = sum(float((one.grad * one).sum()) for one in group["params"] if one.grad is not None)
                group["distance"] = max(group.get("distance", 1e-6), 1e-6 * abs(found))
                for one in group["params"]:
                    one -= group["lr"] * group["distance"] * one.grad.sign()


class Angles(torch.optim.SGD):
    """What makes AdamP what it is: a step nearly at right angles to a row loses its part along the row."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for one in group["params"]:
                    step = one.grad.sign()
                    if one.dim() > 1:
                        rows, steps = one.view(len(one), -1), step.view(len(one), -1)
                        cosine = nn.functional.cosine_similarity(rows, one.grad.view(len(one), -1), dim=1).abs().max()
                        if cosine < 0.1 / rows.shape[1] ** 0.5:
                            along = rows / rows.norm(dim=1, keepdim=True)
                            steps -= along * (along * steps).sum(dim=1, keepdim=True)
                    one -= group["lr"] * step


class LaterAngles(torch.optim.SGD):
    """What makes SGDP what it is: the momentum loses its part along a parameter that the gradient is across."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for one in group["params"]:
                    moment = self.state[one].setdefault("moment", torch.zeros_like(one)).mul_(0.9).add_(one.grad)
                    cosine = (one * one.grad).sum().abs() / (one.norm() * one.grad.norm() + 1e-8)
                    across = one.dim() > 1 and cosine < 0.1 / one.numel() ** 0.5
                    one -= group["lr"] * (moment - one * (one * moment).sum() / one.norm() ** 2 if across else moment)


class Scaled(torch.optim.SGD):
    """A step that a number scales."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for place, one in enumerate(group["params"]):
                    one -= group["lr"] * one.grad * self.scale(place, one, len(group["params"]))

    def scale(self, place: int, one: torch.Tensor, number: int) -> float:
        return 1.0


class OfTheirNumber(Scaled):
    def scale(self, place: int, one: torch.Tensor, number: int) -> float:
        return 1 / number


class OfTheirPlace(Scaled):
    def scale(self, place: int, one: torch.Tensor, number: int) -> float:
        return 1 + place


class OfLargeOnes(Scaled):
    def scale(self, place: int, one: torch.Tensor, number: int) -> float:
        return float(one.norm()) if one.numel() > 4096 else 1.0


class OfBlocks(torch.optim.SGD):
    """What makes optimizers of 8 bits what they are: blocks of large parameters have a scale each."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for one in group["params"]:
                    blocks = one.grad.reshape(-1).split(256 if one.numel() >= 4096 else 1)
                    step = torch.cat([block.abs().max() * block.sign() for block in blocks])
                    one -= group["lr"] * step.view(one.shape)


REFUSED = (Lamb, OneDistance, Angles, LaterAngles, OfTheirNumber, OfTheirPlace, OfLargeOnes, OfBlocks)


def check_what_it_refuses(rank: int, size: int) -> None:
    net = nn.Linear(4, 4)
    for kind in (torch.optim.Adafactor, torch.optim.LBFGS, torch.optim.SparseAdam, *REFUSED):
        with pytest.raises(ValueError, match=f"{kind.__name__} does not work element by element"):
            ShardedOptimizer(net.parameters(), kind)
    if hasattr(torch.optim, "Muon"):
        with pytest.raises(ValueError, match="Muon does not work element by element"):
            ShardedOptimizer([net.weight], torch.optim.Muon)
    with pytest.raises(ValueError, match="found one on meta"):
        ShardedOptimizer(nn.Linear(2, 2, device="meta").parameters(), torch.optim.SGD)
    with pytest.raises(ValueError, match="empty parameter list"):
        ShardedOptimizer([], torch.optim.SGD)
    with pytest.raises(ValueError, match="no such codec: 'zip'"):
        ShardedOptimizer(net.parameters(), torch.optim.SGD, codec="zip")
    gloo = dist.new_group(backend="gloo")
    with pytest.raises(TypeError, match="codecs need a process group of Paceline, found one of gloo"):
        ShardedOptimizer(net.parameters(), torch.optim.SGD, gloo, codec="bf16")
    with pytest.raises(TypeError, match="nonsense"):
        ShardedOptimizer(net.parameters(), torch.optim.SGD, nonsense=1)
    whole = nn.Parameter(torch.zeros(4, 4))
    for other in (whole.data, whole.data[1], whole.data.t()):
        with pytest.raises(ValueError, match=r"float32\[4.* and float32\[4.* share memory"):
            ShardedOptimizer([whole, nn.Parameter(other)], torch.optim.SGD)
    ShardedOptimizer([nn.Parameter(half) for half in whole.data.chunk(2)], torch.optim.SGD)
    table = nn.Embedding(4, 2, sparse=True)
    _optimizer = ShardedOptimizer(table.named_parameters(), torch.optim.SGD)
    with pytest.raises(TypeError, match=r'parameter 0 \("weight"\) has a sparse gradient'):
        table(torch.tensor([1])).sum().backward()


@pytest.mark.parametrize("check", [check_ranks_disagree, check_what_it_refuses])
def test_refusals(ranks: Ranks, check: Callable[[int, int], None]) -> None:
    ranks(check, 3)
