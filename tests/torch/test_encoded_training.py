"""Gradients that are encoded between machines: DDP's communication hook and GradientBuckets, with error feedback."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from jobs import TORCH, run
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch_ranks import Ranks

import paceline.torch
from paceline.torch.residuals import Residuals

PROGRAM = Path(__file__).with_name("encoded_training.py")


@pytest.mark.parametrize("machines", ["01", "011"])
def test_training(machines: str, tmp_path: Path) -> None:
    run(len(machines), PROGRAM, machines, output=tmp_path, imports=TORCH)


def test_states_of_a_training(tmp_path: Path) -> None:
    run(2, PROGRAM.with_name("encoded_states.py"), output=tmp_path, imports=TORCH)


def refused(rank: int, size: int) -> None:
    net = DDP(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="no such codec: 'zip'"):
        paceline.torch.compress(net, "zip")

    net = DDP(nn.Linear(3, 3))
    with pytest.raises(ValueError, match="sends no parameters that could be encoded"):
        paceline.torch.compress(net, "bf16", parameters="bf16")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"or what fully_shard has sharded, not a Linear"):
        paceline.torch.compress(nn.Linear(3, 3), "bf16")  # type: ignore[call-overload]


def on_an_accelerator(rank: int, size: int, served: bool) -> None:
    net = DDP(nn.Linear(3, 3))
    with FakeTensorMode():
        net.module.weight = nn.Parameter(torch.zeros(3, 3, device="cuda"))
    if served:
        paceline.torch.compress(net, "bf16")
        return
    with pytest.raises(ValueError, match="with PACELINE_CUDA=engine, CUDA's, found a parameter on cuda:0"):
        paceline.torch.compress(net, "bf16")


def elsewhere(rank: int, size: int) -> None:
    net = DDP(nn.Linear(3, 3))
    with pytest.raises(TypeError, match="codecs need a process group of Paceline, found one of gloo"):
        paceline.torch.compress(net, "bf16")
    sharded = fully_shard(nn.Linear(3, 3), mesh=init_device_mesh("cpu", (size,)))
    with pytest.raises(TypeError, match="codecs need a process group of Paceline, found one of gloo"):
        paceline.torch.compress(sharded, "bf16")


def test_what_cannot_be_is_refused(ranks: Ranks) -> None:
    ranks(refused, 2)
    for served in (False, True):
        environment = {"PACELINE_CUDA": "engine" if served else "nccl"}
        ranks(on_an_accelerator, 2, environment=environment, fresh=True, served=served)
    ranks(elsewhere, 2, backend="gloo")


def test_cuda_tensors_of_machines(tmp_path: Path) -> None:
    run(2, PROGRAM.with_name("encoded_on_device.py"), output=tmp_path, imports=TORCH)


def test_residuals_follow_their_parameters_from_bucket_to_bucket() -> None:
    parameters = {name: torch.zeros(size) for name, size in (("a", 3), ("b", 2), ("c", 4))}
    a, b, c = parameters.values()
    residuals = Residuals(parameters)
    residuals.of(0, 5, [a, b], [0, 3]).copy_(torch.arange(5.0))
    residuals.of(1, 8, [c], [2]).copy_(torch.arange(8.0) + 10)
    assert torch.equal(residuals.of(0, 5, [a, b], [0, 3]), torch.arange(5.0))
    moved = residuals.of(0, 8, [c, b], [0, 5])
    assert torch.equal(moved, torch.tensor([12.0, 13, 14, 15, 0, 3, 4, 0]))
    # What was lost of a gradient that does not come waits for the next one.
    assert torch.equal(residuals.of(0, 8, [c, b], [0, 5], absent={0}), torch.tensor([0.0, 0, 0, 0, 0, 3, 4, 0]))
    residuals.of(0, 8, [c, b], [0, 5], absent={0})[0] = 1.0
    assert residuals.state_dict()["c"].tolist() == [13, 13, 14, 15]
    assert torch.equal(residuals.of(0, 8, [c, b], [0, 5]), torch.tensor([13.0, 13, 14, 15, 0, 3, 4, 0]))
    moved[0] = 12.0
    state = residuals.state_dict()
    assert {name: part.tolist() for name, part in state.items()} == {"a": [0, 1, 2], "b": [3, 4], "c": [12, 13, 14, 15]}
    loaded = Residuals(parameters)
    loaded.load_state_dict(state)
    assert torch.equal(loaded.of(7, 6, [b, c], [0, 2]), torch.tensor([3.0, 4, 12, 13, 14, 15]))
    with pytest.raises(ValueError, match="the state has 3 elements for b, the model has 2 elements"):
        loaded.load_state_dict({"b": torch.zeros(3)})
