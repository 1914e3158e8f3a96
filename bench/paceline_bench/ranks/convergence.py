"""A rank of a small training on real data, whose gradients or parameters are encoded between machines."""

from __future__ import annotations

import importlib
import zlib
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from .real_data import TASKS, Samples, Task
from .wire import Message

ON_PARAMETERS = ("three_in_one",)
"""The codecs that encode parameters, by a sharded optimizer. The others encode gradients, with error feedback."""
_MOMENTUM = 0.9
_AT_ONCE = 512
"""Samples that are evaluated together."""


class Convergence:
    """One rank, with Paceline for all collectives."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        self._paceline = importlib.import_module("paceline.torch")
        dist.init_process_group("paceline", timeout=timedelta(seconds=timeout))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.about = f"torch {torch.__version__}"

    def do_train(self, training: str, codec: str, seed: int, nudged: bool) -> Message:
        """Train from the seed on. nudged: whether from parameters that are one float32 away from it.

        Returns the mean loss over all samples for training at the end, the share of the test samples (or of their
        characters) that are recognised, and a checksum of the parameters, which are the same bits on all ranks.
        """
        task = TASKS[training]
        train, test = task.data()
        torch.manual_seed(seed)
        module = task.network()
        if nudged:
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.mul_(1 + torch.finfo(parameter.dtype).eps)
        self._train(task, module, codec, train, seed)
        loss, _ = _evaluated(module, train)
        _, accuracy = _evaluated(module, test)
        flat = torch.cat([parameter.detach().flatten() for parameter in module.parameters()])
        return {"final_loss": loss, "accuracy": accuracy, "checksum": zlib.crc32(flat.numpy().tobytes())}

    def close(self) -> None:
        """Leave the process group."""
        dist.destroy_process_group()

    def _train(self, task: Task, module: nn.Module, codec: str, train: Samples, seed: int) -> None:
        chance = torch.Generator().manual_seed(seed)
        steps = len(train.inputs) // task.batch
        model, optimizer = self._encoded(task, module, codec)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, task.epochs * steps)
        part = task.batch // self.size
        for _ in range(task.epochs):
            order = torch.randperm(len(train.inputs), generator=chance)
            for step in range(steps):
                begin = step * task.batch + self.rank * part
                mine = order[begin : begin + part]
                optimizer.zero_grad()
                cross_entropy(model(train.inputs[mine]), train.targets[mine]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()

    def _encoded(self, task: Task, module: nn.Module, codec: str) -> tuple[nn.Module, torch.optim.Optimizer]:
        options: dict[str, Any] = {"lr": task.rate, "weight_decay": task.decay}
        if task.optimizer is torch.optim.SGD:
            options["momentum"] = _MOMENTUM
        if codec in ON_PARAMETERS:
            return module, self._paceline.ShardedOptimizer(module.parameters(), task.optimizer, codec=codec, **options)
        model = DistributedDataParallel(module)
        self._paceline.compress(model, codec)
        return model, task.optimizer(model.parameters(), **options)


@torch.no_grad()
def _evaluated(module: nn.Module, samples: Samples) -> tuple[float, float]:
    """Return the mean loss, and the share of the targets that the network finds."""
    loss, right = torch.zeros(1, dtype=torch.float64), 0
    for inputs, targets in zip(
        *(torch.split(part, _AT_ONCE) for part in (samples.inputs, samples.targets)), strict=True
    ):
        scores: Tensor = module(inputs)
        loss += cross_entropy(scores, targets, reduction="sum")
        right += int((scores.argmax(1) == targets).sum())
    return float(loss) / samples.targets.numel(), right / samples.targets.numel()
