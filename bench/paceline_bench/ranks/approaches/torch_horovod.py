"""Training with Horovod's DistributedOptimizer for PyTorch: Horovod's own, or Paceline's face with the same API."""

from __future__ import annotations

import importlib
import os
from typing import Any

import torch
from torch import nn

from ..by_name import HOROVOD, meet_as_horovod_does
from .torch_ddp import TorchDdp


class TorchHorovod(TorchDdp):
    """options["module"]: `horovod.torch` or `paceline.horovod.torch`."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        torch.set_num_threads(1)
        self._backend = module = options["module"]
        if module == HOROVOD:
            meet_as_horovod_does(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), timeout)
        self._hvd: Any = importlib.import_module(module)
        self._hvd.init()
        self.rank, self.size = self._hvd.rank(), self._hvd.size()
        self.about = f"{module} with torch {torch.__version__}"

    def build(self, model: str, batch: int, pixels: int) -> None:
        """Make the model and this rank's images."""
        super().build(model, batch, pixels)
        self._optimizer = self._hvd.DistributedOptimizer(
            self._optimizer, named_parameters=self._module.named_parameters()
        )

    def distributed(self, module: nn.Module) -> nn.Module:
        """Return the module itself, because the optimizer exchanges its gradients."""
        return module

    def requests(self) -> list[tuple[float, float, float, float]] | None:
        """Return those of Paceline's face; Horovod does not show its own."""
        if self._backend == HOROVOD:
            return None
        from .named_requests import named_requests  # it is not installed where Horovod is

        return named_requests()

    def close(self) -> None:
        """Leave the job."""
        self._hvd.shutdown()
