"""The work of ranks of all approaches: they make steps of a training, and compare what a step did with a reference."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..pattern import Array
from ..wire import Message

SEED = 1
"""The seed of the weights, the same on all ranks."""
CLASSES = 1000
RATE = 2.0**-6
"""The learning rate, of SGD without momentum."""
_TOLERANCE = 1e-3
"""The largest error that a gradient may have, as a share of the largest of its tensor."""
_ROUNDING = 2.0**-22
"""The largest error of a gradient that is read from the difference of two weights, as a share of weight / rate."""


class Steps(ABC):
    """A rank that trains one of the models `ResNet-50` and `MobileNet` on random images by one approach.

    Every rank computes with one thread, and its images depend on its number alone.
    """

    rank: int
    size: int
    about: str

    @abstractmethod
    def build(self, model: str, batch: int, pixels: int) -> None:
        """Make the model anew, the same on all ranks, and this rank's images [batch, 3, pixels, pixels] and labels."""

    @abstractmethod
    def weights(self) -> Sequence[Array]:
        """Return copies of the trained weights, float32, in the order of the model."""

    @abstractmethod
    def gradients(self) -> Sequence[Array]:
        """Return this rank's own gradients, float32, in the order of the model, without any exchange."""

    @abstractmethod
    def step(self) -> float:
        """Make one step of SGD with the mean of all ranks' gradients.

        Returns when this rank's own gradients were computed, in seconds of CLOCK_REALTIME.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave the job."""

    def requests(self) -> list[tuple[float, float, float, float]] | None:
        """Return when each of this rank's last requests was agreed on, packed, reduced and unpacked, the oldest first.

        In seconds of CLOCK_REALTIME; None if the approach has no requests, or does not show them.
        """
        return None

    def do_build(self, model: str, batch: int, pixels: int) -> Message:
        """Make the model. The answer has the bytes of its gradients and the number of its tensors."""
        self.build(model, batch, pixels)
        sizes = [weight.nbytes for weight in self.weights()]
        return {"bytes": sum(sizes), "tensors": len(sizes)}

    def do_refer(self, folder: str) -> Message:
        """Write this rank's own gradients into the folder, which all ranks see."""
        found = np.concatenate([gradient.ravel() for gradient in self.gradients()])
        np.save(Path(folder) / f"{self.rank}.npy", found)
        return {}

    def do_check(self, folder: str) -> Message:
        """Make the first step; return the number of tensors that it changed by something else than RATE times the mean
        of the gradients in the folder.
        """
        before = self.weights()
        self.step()
        after = self.weights()
        own = [np.load(Path(folder) / f"{rank}.npy", mmap_mode="r") for rank in range(self.size)]
        wrong, begin = 0, 0
        for old, new in zip(before, after, strict=True):
            end = begin + old.size
            expected = np.mean([one[begin:end].astype(np.float64) for one in own], axis=0)
            found = (old.ravel().astype(np.float64) - new.ravel()) / RATE
            allowed = _TOLERANCE * np.abs(expected).max() + _ROUNDING * np.abs(old).max() / RATE
            wrong += int(not np.abs(found - expected).max() <= allowed)
            begin = end
        return {"wrong": wrong}

    def do_train(self, steps: int) -> Message:
        """Make one untimed step and `steps` timed ones.

        The answer has this rank's wall and CPU seconds, when its own gradients were computed in each timed step, when
        the step was over, and what `requests` returns, from the first timed step on.
        """
        self.step()
        ready, over = list[float](), [time.time()]
        cpu, begin = time.process_time(), time.perf_counter()
        for _ in range(steps):
            ready.append(self.step())
            over.append(time.time())
        seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu
        requests = self.requests()
        if requests is not None:
            requests = [request for request in requests if request[-1] > over[0]]
        return {
            "seconds": seconds,
            "cpu_seconds": cpu_seconds,
            "ready": ready,
            "over": over[1:],
            "requests": requests,
        }
