"""Trains under Lightning or Accelerate until rank 1 is killed; the others report what their trainer raised.

Arguments: "kill", and "lightning" or "accelerate".
"""

from __future__ import annotations

import json
import os
import signal
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

VICTIM = 1
model = torch.nn.Linear(4, 1)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=4)


def loss_of(module: torch.nn.Module, batch: list[torch.Tensor], step: int) -> torch.Tensor:
    if step == 3 and os.environ["RANK"] == str(VICTIM):
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.nn.functional.mse_loss(module(batch[0]), batch[1])


def train_with_lightning() -> None:
    import lightning
    from lightning.pytorch.plugins.environments import LightningEnvironment
    from lightning.pytorch.strategies import DDPStrategy

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            return loss_of(self.model, batch, index)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    trainer = lightning.Trainer(
        strategy=DDPStrategy(process_group_backend="paceline"),
        plugins=[LightningEnvironment()],  # otherwise it asks mpi4py, which fails where it finds no MPI
        accelerator="cpu",
        devices=2,
        max_epochs=1,
        barebones=True,
    )
    trainer.fit(Module(), loader)


def train_with_accelerate() -> None:
    from accelerate import Accelerator

    torch.distributed.init_process_group("paceline")
    accelerator = Accelerator(cpu=True)
    prepared, optimizer, batches = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.01), loader)
    for step, batch in enumerate(batches):
        accelerator.backward(loss_of(prepared, batch, step))
        optimizer.step()
        optimizer.zero_grad()


try:
    {"lightning": train_with_lightning, "accelerate": train_with_accelerate}[sys.argv[2]]()
except RuntimeError as error:
    print(json.dumps({"kind": type(error).__name__, "message": str(error), "victim": VICTIM}), flush=True)
    os._exit(7)  # at once: how a rank ends is not what is tested
