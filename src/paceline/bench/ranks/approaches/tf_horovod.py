"""Training with TensorFlow over Paceline, through its face of Horovod's API for TensorFlow."""

from __future__ import annotations

import importlib
from typing import Any

from .tf_steps import TfSteps


class TfHorovod(TfSteps):
    """Each gradient is handed in by name as soon as it is computed."""

    def __init__(self, options: dict[str, str], timeout: float) -> None:
        super().__init__(options, timeout)
        self._hvd: Any = importlib.import_module("paceline.horovod.tensorflow")
        self._hvd.init()
        self.about = f"paceline.horovod.tensorflow with {self.about}"

    def exchange(self, gradients: list[Any]) -> list[Any]:
        """Return the means."""
        return [self._hvd.allreduce(one, name=f"gradient {place}") for place, one in enumerate(gradients)]

    def close(self) -> None:
        """Leave the job."""
        self._hvd.shutdown()
