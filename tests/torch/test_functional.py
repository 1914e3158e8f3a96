"""Functional collectives, their autograd versions, and those inside torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_ranks import Ranks


def check_values(rank: int, size: int) -> None:
    group: Any = dist.group.WORLD
    ones = torch.ones(size * 2)
    assert functional.all_reduce(ones, "sum", group).eq(size).all()
    assert functional.all_reduce(ones * rank, "avg", group).eq((size - 1) / 2).all()
    assert ones.eq(1).all()
    gathered = functional.all_gather_tensor(torch.full((2, 3), float(rank)), 1, group)
    assert gathered.shape == (2, 3 * size) and gathered[0, ::3].tolist() == list(range(size))
    scattered = functional.reduce_scatter_tensor(torch.arange(2.0 * size), "sum", 0, group)
    assert scattered.tolist() == [size * 2.0 * rank, size * (2.0 * rank + 1)]
    exchanged = functional.all_to_all_single(torch.arange(size * 1.0) + 10 * rank, None, None, group)
    assert exchanged.tolist() == [10.0 * other + rank for other in range(size)]
    assert functional.broadcast(torch.full((3,), float(rank)), 1, group).eq(1).all()
    both = functional.all_reduce_coalesced([torch.ones(1), torch.ones(5)], "sum", group)
    assert all(tensor.eq(size).all() for tensor in both)
    both = functional.all_gather_into_tensor_coalesced([torch.ones(1) * rank, torch.ones(2) * rank], group)
    assert [tensor.numel() for tensor in both] == [size, 2 * size]
    both = functional.reduce_scatter_tensor_coalesced([torch.ones(size), torch.ones(2 * size)], "sum", [0, 0], group)
    assert all(tensor.eq(size).all() for tensor in both)
    assert dist.distributed_c10d._get_default_group() is group


def check_results_as_arguments(rank: int, size: int) -> None:
    """What a functional collective returns stands for a tensor, and every other collective takes it."""
    group: Any = dist.group.WORLD

    def ones() -> Tensor:
        return functional.all_reduce(torch.ones(size), "sum", group)

    for wait in (False, True):
        result = ones()
        work = dist.all_reduce(result, async_op=wait)
        if work is not None:
            work.wait()
        assert result.tolist() == [size * size] * size
    result = ones() if rank == 0 else ones() * 0
    result = functional.all_reduce(result, "max", group)
    dist.broadcast(result, 0)
    assert result.tolist() == [size] * size
    gathered, rows = torch.zeros(size * size), [torch.zeros(size) for _ in range(size)]
    dist.all_gather_into_tensor(gathered, ones())
    dist.all_gather(rows, ones())
    assert gathered.tolist() == torch.cat(rows).tolist() == [size] * size * size
    scattered = torch.zeros(1)
    dist.reduce_scatter_tensor(scattered, ones())
    assert scattered.item() == size * size
    result = ones()
    if rank == 0:
        dist.send(result, 1)
    elif rank == 1:
        result = result * 0
        dist.recv(result, 0)
        assert result.tolist() == [size] * size
    with FakeTensorMode():
        fake = torch.ones(3)
    dist.all_reduce(fake)
    assert fake.shape == (3,)


def check_autograd(rank: int, size: int) -> None:
    group: Any = dist.group.WORLD
    x = torch.full((size,), rank + 1.0, requires_grad=True)
    functional.all_to_all_single_autograd(x, None, None, group).square().sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0 * (rank + 1)] * size
    x = torch.full((2,), rank + 1.0, requires_grad=True)
    total = differentiable.all_reduce(x)
    total.sum().backward()
    assert x.grad is not None and x.grad.eq(size).all()
    x = torch.full((2,), rank + 1.0, requires_grad=True)
    torch.stack(differentiable.all_gather(x)).sum().backward()
    assert x.grad is not None and x.grad.eq(size).all()


def check_compiled(rank: int, size: int) -> None:
    group: Any = dist.group.WORLD

    # With nothing to compute between them there is no kernel that a C++ compiler has to be started for.
    def step(x: Tensor) -> Tensor:
        everything = functional.all_gather_tensor(x, 0, group)
        return functional.all_reduce(everything, "sum", group)

    compiled = torch.compile(step, fullgraph=True)
    for scale in (1.0, 3.0):
        x = torch.full((4,), scale)
        assert compiled(x).tolist() == [scale * size] * (4 * size)


@pytest.mark.parametrize("check", [check_values, check_results_as_arguments, check_autograd])
def test_functional(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 3)


@pytest.mark.verify
def test_compiled(ranks: Ranks) -> None:
    ranks(check_compiled, 2, deadline=300)
