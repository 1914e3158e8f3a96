"""Distributed checkpoints (DCP): saved by one number of ranks, loaded by another."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch_ranks import Ranks


def _model(seed: int, size: int) -> nn.Module:
    torch.manual_seed(seed)
    return fully_shard(
        nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 3)), mesh=init_device_mesh("cpu", (size,))
    )


def save(rank: int, size: int, folder: str) -> list[float]:
    model = _model(0, size)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state, "step": 7}, checkpoint_id=folder)
    return _sums(model)


def load(rank: int, size: int, folder: str) -> list[float]:
    model = _model(1, size)
    optimizer = torch.optim.Adam(model.parameters())
    weights, state = get_state_dict(model, optimizer)
    content = {"model": weights, "optimizer": state, "step": 0}
    dcp.load(content, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=content["model"], optim_state_dict=content["optimizer"])
    assert content["step"] == 7
    return _sums(model)


def save_asynchronously(rank: int, size: int, folder: str) -> None:
    """The saving thread uses its own group while training goes on."""
    group = dist.new_group()
    future = dcp.async_save({"tensor": torch.full((4,), 1.0)}, checkpoint_id=folder, process_group=group)
    for _ in range(20):
        dist.all_reduce(torch.ones(1000))
    future.result()
    content = {"tensor": torch.zeros(4)}
    dcp.load(content, checkpoint_id=folder)
    assert content["tensor"].eq(1).all()


def _sums(model: nn.Module) -> list[float]:
    return [parameter.full_tensor().sum().item() for parameter in model.parameters()]  # type: ignore[operator]


def test_saved_by_two_loaded_by_three(ranks: Ranks, tmp_path: Path) -> None:
    saved = ranks(save, 2, folder=str(tmp_path / "checkpoint"))
    loaded = ranks(load, 3, folder=str(tmp_path / "checkpoint"))
    assert all(torch.allclose(torch.tensor(sums), torch.tensor(saved[0])) for sums in loaded)


def test_asynchronous_save(ranks: Ranks, tmp_path: Path) -> None:
    ranks(save_asynchronously, 2, folder=str(tmp_path / "checkpoint"))
