"""DeviceMesh and DTensor: meshes made of subgroups, redistribution, tensor parallelism."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch_ranks import Ranks


def check_mesh(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    for name, members in (("data", [rank % 2, rank % 2 + 2]), ("model", [rank // 2 * 2, rank // 2 * 2 + 1])):
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=mesh[name].get_group())
        assert tensor.item() == sum(members)
        assert mesh[name].get_local_rank() == members.index(rank)
    flat = mesh["data", "model"]._flatten("all")
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=flat.get_group())
    assert tensor.item() == size
    DeviceMesh("cpu", [[0, 3], [1, 2]])


def check_redistribution(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(70.0).view(10, 7)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.full_tensor(), whole)
    columns = sharded.redistribute(mesh, [Shard(1)])
    assert torch.equal(columns.full_tensor(), whole)
    assert torch.equal(columns.redistribute(mesh, [Replicate()]).to_local(), whole)
    partial = torch.distributed.tensor.DTensor.from_local(whole, mesh, [Partial()])
    assert torch.equal(partial.full_tensor(), whole * size)
    assert torch.equal(partial.redistribute(mesh, [Shard(0)]).full_tensor(), whole * size)


def check_tensor_parallel(rank: int, size: int) -> None:
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    torch.manual_seed(0)
    parallel = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    parallelize_module(parallel, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    data = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    expected, actual = reference(data), parallel(data)
    torch.testing.assert_close(actual, expected)
    expected.sum().backward()
    actual.sum().backward()
    gradient = parallel[0].weight.grad
    torch.testing.assert_close(gradient.full_tensor(), reference[0].weight.grad)


@pytest.mark.parametrize("check", [check_mesh, check_redistribution, check_tensor_parallel])
def test_mesh(ranks: Ranks, check: Callable[..., None]) -> None:
    ranks(check, 4)
