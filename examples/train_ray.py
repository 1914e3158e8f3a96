"""Ray Train over Paceline, with DDP and with a function written for Horovod: python examples/train_ray.py"""

import tempfile

import ray
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig, get_context
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model

import paceline.horovod.torch as hvd
from paceline.horovod.ray import HorovodTrainer


def steps(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    """The losses of some steps on this rank's own data."""
    torch.manual_seed(get_context().get_world_rank())
    losses = []
    for _ in range(100):
        inputs = torch.randn(64, 16)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def with_ddp() -> tuple[str, list[float]]:
    """What DDP's users run; Ray has made the process group."""
    model = prepare_model(torch.nn.Linear(16, 1))
    losses = steps(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return f"{dist.get_world_size()} ranks over {dist.get_backend()}", losses


def with_horovod() -> tuple[str, list[float]]:
    """What Horovod's users run, with the import changed."""
    hvd.init()
    model = torch.nn.Linear(16, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    return f"{hvd.size()} ranks of Horovod's API", steps(model, optimizer)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"scaling_config": ScalingConfig(num_workers=2), "run_config": RunConfig(storage_path=folder)}
        for trainer in (
            TorchTrainer(with_ddp, torch_config=TorchConfig(backend="paceline"), **settings),
            HorovodTrainer(with_horovod, **settings),
        ):
            ranks, losses = trainer.fit().return_value
            print(f"{ranks}: loss {losses[0]:.4f}, then {losses[-1]:.4f}")
    ray.shutdown()
