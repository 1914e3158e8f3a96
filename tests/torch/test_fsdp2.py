"""FSDP2: sharded training equals one process on the combined batch; AVG and PREMUL_SUM reach the engine."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch_ranks import Ranks

BATCH = 4


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 7), nn.Tanh(), nn.Linear(7, 2)).double()


def whole_batch(step: int, size: int) -> Tensor:
    return torch.randn(size * BATCH, 6, generator=torch.Generator().manual_seed(step), dtype=torch.float64)


def train(sharded: nn.Module, reference: nn.Module, rank: int, size: int) -> None:
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.01) for net in (sharded, reference)]
    for step in range(3):
        whole = whole_batch(step, size)
        part = whole[rank * BATCH : (rank + 1) * BATCH]
        for net, optimizer, data in ((sharded, optimizers[0], part), (reference, optimizers[1], whole)):
            optimizer.zero_grad()
            net(data).square().mean().backward()
            optimizer.step()
    for left, right in zip(sharded.parameters(), reference.parameters(), strict=True):
        assert isinstance(left, DTensor)
        torch.testing.assert_close(left.full_tensor(), right)


def check_fully_shard(rank: int, size: int) -> None:
    for reshard in (True, False):
        reference = model()
        sharded = copy.deepcopy(reference)
        for layer in sharded:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=init_device_mesh("cpu", (size,)), reshard_after_forward=reshard)
        fully_shard(sharded, mesh=init_device_mesh("cpu", (size,)), reshard_after_forward=reshard)
        train(sharded, reference, rank, size)


def check_memory_of_the_group(rank: int, size: int) -> None:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))  # type: ignore[union-attr]
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    reference = model()
    sharded = fully_shard(copy.deepcopy(reference), mesh=init_device_mesh("cpu", (size,)))
    sharded.set_allocate_memory_from_process_group_for_comm(True)
    train(sharded, reference, rank, size)


def check_divide_factor(rank: int, size: int) -> None:
    """A divide factor of the user's own is what FSDP2 sends PREMUL_SUM for."""
    reference = model()
    sharded = fully_shard(copy.deepcopy(reference), mesh=init_device_mesh("cpu", (size,)))
    sharded.set_gradient_divide_factor(2.0 * size)
    whole = whole_batch(0, size)
    sharded(whole[rank * BATCH : (rank + 1) * BATCH]).square().mean().backward()
    reference(whole).square().mean().backward()
    for left, right in zip(sharded.parameters(), reference.parameters(), strict=True):
        assert isinstance(left.grad, DTensor) and right.grad is not None
        torch.testing.assert_close(left.grad.full_tensor() * 2, right.grad)


def check_mixed_precision(rank: int, size: int) -> None:
    reference = model().float()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    sharded = fully_shard(copy.deepcopy(reference), mesh=init_device_mesh("cpu", (size,)), mp_policy=policy)
    whole = whole_batch(0, size).float()
    sharded(whole[rank * BATCH : (rank + 1) * BATCH]).float().square().mean().backward()
    reference(whole).square().mean().backward()
    for left, right in zip(sharded.parameters(), reference.parameters(), strict=True):
        assert isinstance(left.grad, DTensor)
        torch.testing.assert_close(left.grad.full_tensor(), right.grad, rtol=0.1, atol=0.02)


def check_hybrid(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard"))
    reference = model()
    train(fully_shard(copy.deepcopy(reference), mesh=mesh), reference, rank, size)


def check_accumulation(rank: int, size: int) -> None:
    reference = model()
    sharded = fully_shard(copy.deepcopy(reference), mesh=init_device_mesh("cpu", (size,)))
    for step in range(2):
        whole = whole_batch(step, size)
        sharded.set_requires_gradient_sync(step == 1)
        sharded(whole[rank * BATCH : (rank + 1) * BATCH]).square().mean().backward()
        reference(whole).square().mean().backward()
    total = nn.utils.clip_grad_norm_(sharded.parameters(), 0.1)
    assert isinstance(total, DTensor)
    torch.testing.assert_close(total.full_tensor(), nn.utils.clip_grad_norm_(reference.parameters(), 0.1))
    dist.barrier()


CHECKS = [check_fully_shard, check_memory_of_the_group, check_divide_factor, check_mixed_precision, check_accumulation]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_fsdp2(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 3)


def test_hybrid(ranks: Ranks) -> None:
    ranks(check_hybrid, 4)
